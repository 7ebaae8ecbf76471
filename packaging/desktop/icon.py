#!/usr/bin/env python3
"""Draws the icon: a small layer map, in which two tokens leave early. Only Python itself is needed.

    packaging/desktop/icon.py FOLDER

writes FOLDER/scalable/apps/specbound.svg and FOLDER/{32x32,...,256x256}/apps/specbound.png, as
share/icons/hicolor has them.

The shapes are rectangles with round corners, described once; the PNGs are drawn from them with some
samples a pixel.
"""
import pathlib
import struct
import sys
import zlib

# On a square of 128 units: (left, top, width, height, corner radius, colour).
BACKGROUND = (4, 4, 120, 120, 26, "#14171c")
COLUMNS, ROWS, CELL, GAP = 4, 5, 16, 5
LEFT = (128 - COLUMNS * CELL - (COLUMNS - 1) * GAP) / 2
TOP = (128 - ROWS * CELL - (ROWS - 1) * GAP) / 2
# From the first layer (bottom) up; darker: less sure. The exit's cell is amber.
NOTHING, EXIT, LAST = "#262c36", "#f2c14e", "#5fd38d"
SURE = ("#24365c", "#2f5597", "#3f7ad6", "#4c9aff")
# For each token: the layer its draft left at, from 1; 0: it went through all of them.
EXITS = (2, 3, 1, 0)


def shapes():
    """All rectangles, the lowest first."""
    yield BACKGROUND
    for column, left_at in enumerate(EXITS):
        for row in range(ROWS):
            layer = row + 1
            x = LEFT + column * (CELL + GAP)
            y = TOP + (ROWS - layer) * (CELL + GAP)
            if left_at and layer > left_at:
                color = NOTHING
            elif layer == left_at:
                color = EXIT
            elif not left_at and layer == ROWS:
                color = LAST
            else:
                color = SURE[min(row, len(SURE) - 1)]
            yield (x, y, CELL, CELL, 4, color)


def svg():
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 128 128">']
    for x, y, width, height, radius, color in shapes():
        lines.append(f'  <rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
                     f'rx="{radius:g}" fill="{color}"/>')
    return "\n".join(lines + ["</svg>", ""])


def inside(shape, x, y):
    left, top, width, height, radius, _ = shape
    # Distance from the rectangle that the centres of the corners span.
    dx = max(left + radius - x, x - (left + width - radius), 0)
    dy = max(top + radius - y, y - (top + height - radius), 0)
    return dx * dx + dy * dy <= radius * radius


def pixels(size, samples=3):
    """Rows of RGBA bytes. Colours of the samples are averaged, weighted by what they cover."""
    drawn = [(s, bytes.fromhex(s[5][1:])) for s in shapes()]
    step = 128 / size / samples
    for row in range(size):
        line = bytearray()
        above, below = row * samples * step, (row + 1) * samples * step
        near = [(s, color) for s, color in drawn if s[1] < below and s[1] + s[3] > above]
        for column in range(size):
            total, covered = [0, 0, 0], 0
            for i in range(samples * samples):
                x = (column * samples + i % samples + 0.5) * step
                y = (row * samples + i // samples + 0.5) * step
                color = None
                for shape, value in near:
                    if inside(shape, x, y):
                        color = value
                if color is not None:
                    covered += 1
                    total = [a + b for a, b in zip(total, color)]
            line += bytes([round(c / covered) if covered else 0 for c in total])
            line.append(round(255 * covered / (samples * samples)))
        yield bytes(line)


def png(size):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + line for line in pixels(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) +
            chunk(b"IEND", b""))


def main():
    if len(sys.argv) != 2:
        print("usage: packaging/desktop/icon.py FOLDER", file=sys.stderr)
        return 2
    pictures = {"scalable/apps/specbound.svg": svg().encode()}
    for size in (32, 64, 128, 256):
        pictures[f"{size}x{size}/apps/specbound.png"] = png(size)
    for name, data in pictures.items():
        file = pathlib.Path(sys.argv[1]) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
