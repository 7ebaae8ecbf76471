// The machine itself: what instructions do that the kernels may one day have, and what it catches.
#include "ptx/machine.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "ptx/faults.h"
#include "simt/device_buffer.h"

namespace ptx {

namespace {

using simt::DeviceBuffer;
using simt::Fault;
using simt::Order;

std::unique_ptr<Kernel> kernel_of(const std::string& body) {
  return parse_kernel(
      "k(\n.param .align 8 .b8 k_param_0[16]\n)\n.maxntid 128, 1, 1\n{\n"
      ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<33>;\n.reg .f32 %f<9>;\n"
      ".reg .b64 %rd<9>;\n.reg .f64 %fd<9>;\n.shared .align 4 .b8 own[4];\n" +
          body + "\n}",
      {"arena"});
}

// %rd1 is the buffer, %rd2 what this thread has of it (words), %r31 its number.
constexpr const char* kBegin =
    "ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r31, %tid.x;\nmul.wide.u32 %rd2, %r31, 4;\n"
    "add.s64 %rd2, %rd1, %rd2;\n";

void run(const std::string& body, const void* buffer, unsigned threads = 32, bool overlaps = false,
         Unfinished* unfinished = nullptr) {
  const std::unique_ptr<Kernel> kernel = kernel_of(kBegin + body);
  const void* parameters[2] = {buffer, nullptr};
  run_grid(*kernel, {"k", {1, 1, 1}, threads, 1024, {}, nullptr, overlaps}, parameters,
           sizeof parameters, unfinished);
}

std::vector<uint32_t> words_after(const std::string& body, unsigned threads = 32) {
  const DeviceBuffer<uint32_t> words(threads);
  run(body, words.data(), threads);
  return words.read();
}

// The order for the rest of a block.
class Ordered {
 public:
  explicit Ordered(Order order) { simt::options().order = order; }
  ~Ordered() { simt::options() = was_; }

 private:
  simt::Options was_ = simt::options();
};

// %r0 after the text, with %r1.. as they are given.
uint32_t result(const std::string& text, const std::vector<uint32_t>& given) {
  std::string body;
  for (size_t i = 0; i < given.size(); ++i)
    body += format("mov.b32 %%r%zu, %u;\n", i + 1, given[i]);
  return words_after(body + text + "\nst.global.u32 [%rd2], %r0;")[5];
}

constexpr const char* kFloat = "mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;\n";
uint32_t float_result(const std::string& text, const std::vector<uint32_t>& given) {
  return result(kFloat + text + "\nmov.b32 %r0, %f0;", given);
}

}  // namespace

TEST_CASE("machine: instructions on integers and bits") {
  CHECK(result("mul.hi.u32 %r0, %r1, %r2;", {0x80000001, 6}) == 3);
  CHECK(result("mul.hi.s32 %r0, %r1, %r2;", {0x80000000, 6}) == 0xfffffffd);
  CHECK(result("div.s32 %r0, %r1, %r2;", {0x80000000, ~0u}) == 0x80000000);
  CHECK(result("rem.s32 %r0, %r1, %r2;", {static_cast<uint32_t>(-7), 3}) == ~0u);
  CHECK(result("shl.b32 %r0, %r1, %r2;", {1, 32}) == 0);
  CHECK(result("shr.s32 %r0, %r1, %r2;", {0x80000000, 40}) == ~0u);
  CHECK(result("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", {0x80000000, 1, 33}) == 3);
  CHECK(result("shf.r.clamp.b32 %r0, %r1, %r2, %r3;", {1, 0xabcd, 40}) == 0xabcd);
  CHECK(result("bfe.u32 %r0, %r1, %r2, %r3;", {0xabcd1234, 8, 12}) == 0xd12);
  CHECK(result("bfe.s32 %r0, %r1, %r2, %r3;", {0xabcd1234, 16, 8}) == 0xffffffcd);
  CHECK(result("bfe.s32 %r0, %r1, %r2, %r3;", {0x80000000, 28, 8}) == 0xfffffff8);
  CHECK(result("bfi.b32 %r0, %r1, %r2, 4, 8;", {0xfff, 0x12345678}) == 0x12345ff8);
  CHECK(result("prmt.b32 %r0, %r1, %r2, %r3;", {0x33228100, 0x77665544, 0x9074}) == 0xff007744);
  CHECK(result("lop3.b32 %r0, %r1, %r2, %r3, 150;", {0xf0, 0xcc, 0xaa}) == (0xf0 ^ 0xcc ^ 0xaa));
  CHECK(result("dp4a.s32.s32 %r0, %r1, %r2, %r3;", {0xff027f80, 0x01010101, 10}) == 10);
  CHECK(result("dp4a.u32.s32 %r0, %r1, %r2, %r3;", {0xff, 0x80, 0}) ==
        static_cast<uint32_t>(-32640));
  CHECK(result("clz.b32 %r0, %r1;", {0x00010000}) == 15);
  CHECK(result("popc.b32 %r0, %r1;", {0xf0f00001}) == 9);
  CHECK(result("brev.b32 %r0, %r1;", {0x00000003}) == 0xc0000000);
  CHECK(result("mov.b64 %rd3, {%r1, %r2}; shr.u64 %rd3, %rd3, 16; cvt.u32.u64 %r0, %rd3;",
               {0x11112222, 0x33334444}) == 0x44441111);
  CHECK(result("cvt.s32.s8 %r0, %r1;", {0x80}) == 0xffffff80);
  CHECK(result("setp.lt.s32 %p1, %r1, %r2; setp.lt.u32 %p2, %r1, %r2; xor.pred %p3, %p1, %p2;"
               "selp.u32 %r0, 7, 8, %p3;",
               {~0u, 1}) == 7);
}

TEST_CASE("machine: floats are IEEE, rounded as the text says") {
  constexpr uint32_t kOne = 0x3f800000, kNan = 0x7fc00000, kZero = 0x80000000;
  // (1 + e) (1 + e) - (1 + 2 e) is e^2, e = 2^-23: rounded once.
  CHECK(float_result("fma.rn.f32 %f0, %f1, %f2, %f3;", {0x3f800001, 0x3f800001, 0xbf800002}) ==
        0x28800000);
  CHECK(float_result("add.rn.f32 %f0, %f1, %f2;", {kOne, 0x33c00000}) == 0x3f800001);
  CHECK(float_result("add.rz.f32 %f0, %f1, %f2;", {kOne, 0x33c00000}) == kOne);
  CHECK(float_result("mul.rn.f32 %f0, %f1, %f2;", {1, 0x3f000001}) == 1);  // subnormal
  CHECK(float_result("max.f32 %f0, %f1, %f2;", {kNan, kOne}) == kOne);
  CHECK(float_result("max.f32 %f0, %f1, %f2;", {kZero, 0}) == 0);
  CHECK(float_result("min.f32 %f0, %f1, %f2;", {0, kZero}) == kZero);
  CHECK(float_result("neg.f32 %f0, %f1;", {0}) == kZero);
  CHECK(float_result("cvt.rni.f32.f32 %f0, %f1;", {0x40200000}) == 0x40000000);  // 2.5
  CHECK(result("mov.b32 %f1, %r1; cvt.rzi.s32.f32 %r0, %f1;", {0x4f800000}) == 0x7fffffff);
  CHECK(result("mov.b32 %f1, %r1; cvt.rni.s32.f32 %r0, %f1;", {kNan}) == 0);
  CHECK(result("mov.b32 %f1, %r1; setp.geu.f32 %p1, %f1, %f1; setp.ne.f32 %p2, %f1, %f1;"
               "selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; or.b32 %r0, %r1, %r2;",
               {kNan}) == 1);
}

TEST_CASE("machine: what ptxas may contract, flush or approximate is refused, and what is no PTX") {
  for (const std::string text :
       {"add.f32 %f0, %f1, %f2;", "mul.f32 %f0, %f1, %f2;", "fma.rn.ftz.f32 %f0, %f1, %f2, %f3;",
        "div.approx.f32 %f0, %f1, %f2;", "mad.f32 %f0, %f1, %f2, %f3;", "ex2.approx.f32 %f0, %f1;",
        "cvt.f32.s32 %f0, %r1;", "bra nowhere;", "mov.u32 %r0, %r99;", "mov.u32 %r0, nothing;",
        "mov.u32 %r0, 12x;", "add.s32 %r0, %r1", "ld.global.v2.u32 {%r0, [%rd1];",
        "ld.global.v4.u32 {%r0, %r1}, [%rd1];", "setp.lt.and.s32 %p1, %r1, %r2, %p2;"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(kernel_of(text), TextError);
  }
  CHECK_THROWS_AS(Program().add("hello"), TextError);
}

TEST_CASE("machine: an access must be aligned, and within one live buffer or the shared memory") {
  const DeviceBuffer<uint32_t> words(std::vector<uint32_t>(32, 5));
  const auto runs = [&](const std::string& text) { run(text, words.data()); };
  CHECK_NOTHROW(runs("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+112];"));
  CHECK_THROWS_AS(runs("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+120];"), Fault);
  CHECK_THROWS_AS(runs("ld.global.u32 %r1, [%rd1+128];"), Fault);
  CHECK_THROWS_AS(runs("ld.global.u32 %r1, [%rd1+-4];"), Fault);
  CHECK_THROWS_AS(runs("ld.global.u32 %r1, [%rd1+2];"), Fault);
  CHECK_THROWS_AS(runs("st.global.u32 [0], %r31;"), Fault);
  CHECK_NOTHROW(runs("@%p0 ld.global.u32 %r1, [0];"));
  CHECK_NOTHROW(runs("st.shared.u32 [arena+1020], %r31; ld.shared.u32 %r1, [own];"));
  CHECK_THROWS_AS(runs("st.shared.u32 [arena+1024], %r31;"), Fault);
  CHECK_THROWS_AS(runs("ld.param.u32 %r1, [k_param_0+16];"), Fault);
  CHECK_THROWS_AS(runs("st.param.u32 [k_param_0], %r1;"), Fault);
  const std::string to_shared = "mov.u32 %r1, arena; cvt.u64.u32 %rd3, %r1; ";
  CHECK_NOTHROW(runs(to_shared + "cvta.shared.u64 %rd4, %rd3; st.u32 [%rd4+4], %r31;"));
  CHECK_THROWS_AS(runs("cvta.to.shared.u64 %rd4, %rd1;"), Fault);
  const void* gone = DeviceBuffer<uint32_t>(32).data();
  CHECK_THROWS_AS(run("ld.global.u32 %r1, [%rd1];", gone), Fault);
  CHECK_THROWS_AS(run("", words.data(), 160), Fault);  // .maxntid 128
}

// Lanes leave a loop one after the other, and are together behind it.
TEST_CASE("machine: lanes that part come together again, in every order") {
  const char* const loop =
      "mov.u32 %r1, 0;\nL1: add.s32 %r1, %r1, %r31; setp.lt.s32 %p1, %r1, 70; @%p1 bra L1;\n"
      "setp.gt.s32 %p2, %r31, 9; @!%p2 bra L2; add.s32 %r1, %r1, 1000;\n"
      "L2: shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nst.global.u32 [%rd2], %r2;";
  for (const Order order : {Order::kForward, Order::kReverse, Order::kRandom}) {
    const Ordered ordered(order);
    const std::vector<uint32_t> found =
        words_after(std::string("setp.eq.s32 %p3, %r31, 0; selp.b32 %r31, 1, %r31, %p3;\n") + loop);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t step = std::max(lane ^ 1, 1u);
      CHECK(found[lane] == (70 + step - 1) / step * step + (step > 9 ? 1000 : 0));
    }
  }
}

TEST_CASE("machine: who waits for lanes that do not come is told so") {
  const char* const store = "\nst.global.u32 [%rd2], %r2;";
  const auto runs = [&](std::string text, unsigned threads = 64) {
    return words_after(text + store, threads);
  };
  const std::string upper = "setp.gt.s32 %p1, %r31, 15;\n";
  CHECK_THROWS_AS(runs(upper + "@%p1 bar.sync 0;"), Fault);
  CHECK_THROWS_AS(runs(upper + "@%p1 ret;\nbar.sync 0;"), Fault);
  CHECK_THROWS_AS(runs(upper + "@%p1 shfl.sync.idx.b32 %r2, %r31, 0, 31, -1;"), Fault);
  CHECK_THROWS_AS(runs("shfl.sync.idx.b32 %r2, %r31, 20, 31, 65535;", 32), Fault);
  CHECK_THROWS_AS(runs(upper + "@%p1 bar.warp.sync 65535;", 32), Fault);
  CHECK_NOTHROW(
      runs("setp.lt.s32 %p1, %r31, 16;\n@!%p1 bra L1;\n"
           "shfl.sync.idx.b32 %r2, %r31, 3, 31, 65535;\nL1: bar.warp.sync -1;",
           32));
}

// What a missing barrier does: in one order it is not seen.
TEST_CASE("machine: a word of the lane beside, and of the warp beside, with and without waiting") {
  const auto shared = [](const std::string& wait, int partner, Order order) {
    const Ordered ordered(order);
    const std::vector<uint32_t> found = words_after(
        "mov.u32 %r1, arena; shl.b32 %r2, %r31, 2; add.s32 %r3, %r1, %r2;\n"
        "st.shared.u32 [%r3], %r31;\n" +
            wait + "\nxor.b32 %r4, %r31, " + std::to_string(partner) +
            ";\nshl.b32 %r4, %r4, 2; add.s32 %r4, %r1, %r4; ld.shared.u32 %r5, [%r4];\n"
            "st.global.u32 [%rd2], %r5;",
        128);
    bool right = true;
    for (uint32_t i = 0; i < 128; ++i) right &= found[i] == (i ^ static_cast<uint32_t>(partner));
    return right;
  };
  CHECK(shared("", 1, Order::kForward));
  CHECK(!shared("", 1, Order::kReverse));
  CHECK(!shared("", 1, Order::kRandom));
  CHECK(shared("bar.warp.sync -1;", 1, Order::kReverse));
  CHECK(shared("bar.warp.sync -1;", 1, Order::kRandom));
  CHECK(!shared("bar.warp.sync -1;", 32, Order::kReverse));
  CHECK(shared("bar.sync 0;", 32, Order::kReverse));
  CHECK(shared("bar.sync 0;", 32, Order::kRandom));
}

// Copies are late in one order and there at once in the other: neither may be relied on.
TEST_CASE("machine: an asynchronous copy is there when its group is waited for, and not before") {
  const auto copied = [](const std::string& wait, Order order) {
    const Ordered ordered(order);
    const DeviceBuffer<uint32_t> words(std::vector<uint32_t>(32, 5));
    run("mov.u32 %r1, arena; shl.b32 %r2, %r31, 3; add.s32 %r3, %r1, %r2;\n"
        "cp.async.ca.shared.global [%r3], [%rd2], 4;\ncp.async.commit_group;\n"
        "cp.async.ca.shared.global.L2::128B [%r3+4], [%rd2], 4, 0;\ncp.async.commit_group;\n" +
            wait +
            "\nld.shared.v2.u32 {%r4, %r5}, [%r3];\nadd.s32 %r4, %r4, %r5;\n"
            "st.global.u32 [%rd2], %r4;",
        words.data());
    return words.read();
  };
  const std::vector<uint32_t> there(32, 5);
  for (const Order order : {Order::kForward, Order::kReverse}) {
    CHECK(copied("cp.async.wait_group 0;", order) == there);
    CHECK(copied("cp.async.wait_all;", order) == there);
  }
  for (const char* const wait : {"cp.async.wait_group 1;", ""}) {
    CHECK(copied(wait, Order::kForward) != there);
    CHECK(copied(wait, Order::kReverse) == there);
  }
}

TEST_CASE("machine: atomic changes, votes, hints") {
  const DeviceBuffer<uint32_t> words(std::vector<uint32_t>(32, 0));
  run("atom.global.add.u32 %r1, [%rd1], 2;\nred.global.max.u32 [%rd1+4], %r31;\n"
      "atom.global.cas.b32 %r2, [%rd1+8], 0, 9;\nprefetch.global.L2 [%rd1];\n"
      "griddepcontrol.wait;\nsetp.lt.s32 %p1, %r31, 3;\nvote.sync.ballot.b32 %r3, %p1, -1;\n"
      "vote.sync.any.pred %p2, %p1, -1;\n@%p2 st.global.u32 [%rd1+12], %r3;",
      words.data());
  const std::vector<uint32_t> found = words.read();
  CHECK(found[0] == 64);
  CHECK(found[1] == 31);
  CHECK(found[2] == 9);
  CHECK(found[3] == 7);
}

TEST_CASE("machine: a kernel that overlaps others waits before it writes, or reads what they did") {
  const DeviceBuffer<uint32_t> words(std::vector<uint32_t>(64, 1));
  const std::string wait = "griddepcontrol.wait;\n", write = "st.global.u32 [%rd2], %r31;\n",
                    read = "ld.global.u32 %r1, [%rd2];\n",
                    read_others = "ld.global.u32 %r1, [%rd2+128];\n";
  // Says what is wrong with `body` behind a kernel that writes the first 32 words.
  const auto wrong = [&](const std::string& body, const std::string& first, bool overlaps = true) {
    Unfinished unfinished;
    run(first, words.data(), 32, false, &unfinished);
    try {
      run(body, words.data(), 32, overlaps, &unfinished);
    } catch (const Fault& fault) {
      return std::string(fault.what());
    }
    return std::string();
  };
  const auto says = [](const std::string& text, const char* part) {
    return text.find(part) != text.npos;
  };
  CHECK(wrong(wait + read + write, write) == "");
  CHECK(wrong(read_others + wait + write, write) == "");
  CHECK(wrong(read + wait, wait) == "");
  CHECK(wrong(read + write, write, false) == "");
  CHECK(says(wrong(read + wait, write), "reads what a kernel before this one wrote"));
  CHECK(says(wrong(write + wait, wait), "writes before it has waited"));
  CHECK(says(wrong(read_others, write), "never waits"));
  // One lane, and whom it meets.
  const std::string one = "setp.eq.s32 %p1, %r31, 0;\n@!%p1 bra on;\n" + wait + "on:\n";
  CHECK(says(wrong(one + write, write), "writes before it has waited"));
  CHECK(wrong(one + "bar.warp.sync -1;\n" + write, write) == "");
  CHECK(wrong(one + "bar.sync 0;\n" + write, write) == "");
  // Behind one that overlapped it, what the first wrote may still be on its way.
  Unfinished unfinished;
  run(write, words.data(), 32, false, &unfinished);
  run(wait, words.data(), 32, true, &unfinished);
  CHECK_THROWS_AS(run(read + wait, words.data(), 32, true, &unfinished), Fault);
  run(wait, words.data(), 32, false, &unfinished);
  CHECK_NOTHROW(run(read + wait, words.data(), 32, true, &unfinished));
}

// The kernels' own tests have the other shapes.
TEST_CASE("machine: the int8 product of 16 k is that of 32 k whose other half is zero") {
  const std::string begin =
      "mul.lo.s32 %r1, %r31, -1640531527; xor.b32 %r2, %r1, 1515870810; shl.b32 %r3, %r1, 3;\n"
      "mov.u32 %r4, 1; mov.u32 %r5, 2; mov.u32 %r6, 3; mov.u32 %r7, 4; mov.u32 %r8, 0;\n";
  const std::string end =
      "\nmad.lo.s32 %r4, %r5, 31, %r4; mad.lo.s32 %r6, %r7, 77, %r6;"
      "add.s32 %r4, %r4, %r6; st.global.u32 [%rd2], %r4;";
  const std::string sums = "{%r4, %r5, %r6, %r7}";
  const auto small = words_after(begin + "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 " + sums +
                                 ", {%r1, %r2}, {%r3}, " + sums + ";" + end);
  const auto large = words_after(begin + "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " + sums +
                                 ", {%r1, %r2, %r8, %r8}, {%r3, %r8}, " + sums + ";" + end);
  CHECK(small == large);
  CHECK(small != words_after(begin + end));
}

TEST_CASE("planted faults: the text of each is there") {
  for (const PlantedFault& fault : planted_faults()) {
    CAPTURE(fault.name);
    CHECK_NOTHROW(planted(fault));
  }
}

}  // namespace ptx
