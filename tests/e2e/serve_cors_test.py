#!/usr/bin/env python3
"""specbound serve --cors: which web pages may read answers. Without it none may: serve_test.py."""
import unittest

from serve_client import CHAT, Server, ask


class Cors(unittest.TestCase):
    def test_pages_of_the_origin_that_was_named_may_read(self):
        page, other = "https://example.org", "https://example.com"
        allowed = "Access-Control-Allow-Origin"
        for origin, told in ((page, page), ("*", "*")):
            server = Server("--cors", origin, "--api-key", "k")
            self.addCleanup(server.end)
            asked = {"Access-Control-Request-Method": "POST", "Origin": page,
                     "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"}
            preflight = server.request("OPTIONS", CHAT, **asked)  # which browsers send without keys
            self.assertEqual(preflight.status, 204)
            self.assertEqual(preflight.headers[allowed], told)
            self.assertIn("POST", preflight.headers["Access-Control-Allow-Methods"])
            self.assertIn("Authorization", preflight.headers["Access-Control-Allow-Headers"])
            self.assertIn("*", preflight.headers["Access-Control-Allow-Headers"])
            self.assertEqual(server.get("/v1/models", Origin=page).status, 401)
            self.assertEqual(server.get("/v1/models", Origin=page).headers[allowed], told)
            server.key = "k"
            for answer in (server.get("/v1/models", Origin=page), server.get("/no", Origin=page),
                           server.post(CHAT, ask(max_tokens=1), Origin=page),
                           server.post(CHAT, b"{", Origin=page)):
                self.assertEqual(answer.headers.get_all(allowed), [told], answer.body)
                self.assertEqual(answer.headers["Vary"], "Origin" if told == page else None)
            stream = server.stream(CHAT, ask(max_tokens=2), Origin=page)
            self.assertEqual(stream.headers[allowed], told)
            self.assertEqual(stream.headers["X-Accel-Buffering"], "no")
            self.assertTrue(stream.events())
            refused = server.request("OPTIONS", CHAT, **{**asked, "Origin": other})
            self.assertEqual(refused.headers.get(allowed), "*" if told == "*" else None)
            self.assertEqual("Access-Control-Allow-Methods" in refused.headers, told == "*")


if __name__ == "__main__":
    unittest.main()
