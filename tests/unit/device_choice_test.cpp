// Where a model runs: the flags, and what comes of them on machines with and without a GPU.
#include "runtime/model_options.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "error.h"
#include "expect_error.h"
#include "parse.h"
#include "terminal/flag_names.h"

namespace device_choice_test {

using namespace specbound;
using namespace specbound::test;
using State = GpuSurvey::State;
using Where = DeviceOptions::Where;

namespace {

struct Given : Parse {
  ModelOptions model;
};

Given parse(std::vector<std::string> arguments) {
  Given given;
  Flags flags("test");
  int n = 0;
  flags.add_int("-n", n, 0, 9, "so that -ngl is not the only flag that begins like it");
  add_model_flags(flags, given.model);
  parse_into(flags, std::move(arguments), given);
  return given;
}

DeviceOptions device(std::vector<std::string> arguments) {
  const Given flags = parse(std::move(arguments));
  CHECK_MESSAGE(!flags.status, flags.err);
  return flags.model.device;
}

ModelConfig any_model() {
  ModelConfig config;
  config.n_layers = 16;
  config.dim = 256;
  config.head_dim = 64;
  config.vocab_size = 4096;
  return config;
}

// Machines, as survey() has them.
GpuSurvey not_built() {
  return {State::kNotBuilt, "this build has no GPU backend", 0, "", {}};
}
GpuSurvey no_driver() {
  return {State::kNoDriver, "no NVIDIA driver was found", 0, "", {}};
}
GpuSurvey old_driver() {
  return {State::kOldDriver, "driver 535.54 serves CUDA 12.2, expected 13.0", 12020, "535.54", {}};
}
GpuSurvey no_gpu() {
  return {State::kNoGpu, "the driver serves no GPU", 13000, "580.65", {}};
}
GpuSurvey two_gpus() {
  GpuSurvey survey = {State::kReady, "", 13000, "580.65", {}};
  for (const int index : {1, 3}) {
    DeviceInfo gpu;
    gpu.index = index;
    gpu.name = "GPU " + std::to_string(index);
    survey.gpus.push_back(gpu);
  }
  return survey;
}

DeviceChoice choose(std::vector<std::string> arguments, GpuSurvey (*machine)(),
                    const ModelConfig& config = any_model(), const Weights& weights = {}) {
  return choose_device(device(std::move(arguments)), config, weights, machine);
}

std::string refusal(ErrorCode code, std::vector<std::string> arguments, GpuSurvey (*machine)(),
                    const ModelConfig& config = any_model()) {
  return expect_error(code, [&] { choose(std::move(arguments), machine, config); });
}

}  // namespace

TEST_CASE("-ngl is one flag in every spelling") {
  for (const std::vector<std::string>& five : std::vector<std::vector<std::string>>{
           {"-ngl", "5"}, {"-ngl5"}, {"-ngl=5"}, {"--gpu-layers", "5"}, {"--n-gpu-layers=5"}}) {
    CHECK_MESSAGE(device(five).layers == 5, five.front());
  }
  CHECK(device({"-ngl", "0"}).layers == 0);
  CHECK(device({"-ngl", "all"}).layers == DeviceOptions::kAllLayers);
  CHECK(device({"-nglall"}).layers == DeviceOptions::kAllLayers);
  CHECK(device({"-ngl", "99999999999"}).layers == DeviceOptions::kAllLayers);
  CHECK(!device({}).layers);
  CHECK(!device({"-n", "5"}).layers);
  for (const char* bad : {"-1", "", "ALL", "3.5", "x"}) {
    const Given f = parse({"-ngl", bad});
    CHECK_MESSAGE(f.status == 2, bad);
    CHECK(f.err.starts_with("specbound test: -ngl: expected 0, all or a number of layers"));
  }
  CHECK(parse({"-nglx"}).err.find("found \"x\"") != std::string::npos);
}

TEST_CASE("-ngl means all layers, none, or the first ones") {
  const auto all_of_16 = [](const char* value) { return device({"-ngl", value}).all_layers(16); };
  CHECK(!device({}).all_layers(16));
  CHECK(!all_of_16("0"));
  CHECK(all_of_16("all"));
  CHECK(all_of_16("17"));  // the output counts as a layer
  CHECK(all_of_16("99"));
  for (const char* part : {"1", "15", "16"}) {
    CHECK(!all_of_16(part));
    const DeviceChoice choice = choose({"-ngl", part}, two_gpus);
    CHECK(choice.gpu == 1);
    CHECK(std::to_string(choice.layers.value_or(-1)) == part);
    CHECK(choice.note == "");
    CHECK(choose({"-ngl", part, "--device", "cuda:3", "--dtype", "fp16"}, two_gpus).gpu == 3);
    CHECK(refusal(ErrorCode::kUsage, {"-ngl", part, "--prefill", "cublas"}, two_gpus)
              .starts_with("--prefill cublas: for a whole model on the GPU only, found -ngl " +
                           std::string(part) + " of 16 layers"));
  }
  CHECK(choose({"-ngl", "all"}, two_gpus).layers == DeviceOptions::kAllLayers);
  CHECK(!choose({}, two_gpus).layers);  // as many as fit
  CHECK(!choose({"-ngl", "0"}, two_gpus).gpu);
  DeviceOptions negative;  // from who reads no flags
  negative.layers = -1;
  CHECK(expect_error(ErrorCode::kUsage, [&] {
          choose_device(negative, any_model(), {}, two_gpus);
        }).starts_with("-ngl -1: expected 0 to 16 layers, or all"));
}

TEST_CASE("--device, --dtype and --prefill take their words and nothing else") {
  CHECK(device({}).where == Where::kAuto);
  CHECK(device({"--device", "cpu"}).where == Where::kCpu);
  CHECK(device({"--device", "cuda"}).where == Where::kCuda);
  CHECK(!device({"--device", "cuda"}).gpu);
  CHECK(device({"--device", "cuda:12"}).gpu == 12);
  const DeviceOptions last = device({"--device", "cuda:2", "--device", "auto"});
  CHECK(last.where == Where::kAuto);
  CHECK(!last.gpu);
  for (const char* bad : {"", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda 1",
                          "cuda:99999999999999999999", "0"}) {
    const Given f = parse({"--device", bad});
    CHECK_MESSAGE(f.status == 2, bad);
    CHECK(f.err.starts_with("specbound test: --device: expected auto, cpu, cuda or cuda:N, found"));
  }
  CHECK(device({}).dtype == GpuDtype::kAsStored);
  CHECK(device({"--dtype", "auto"}).dtype == GpuDtype::kAsStored);
  CHECK(device({"--dtype", "int8"}).dtype == GpuDtype::kInt8);
  CHECK(device({"--dtype", "fp16"}).dtype == GpuDtype::kFp16);
  CHECK(
      parse({"--dtype", "q8"})
          .err.starts_with("specbound test: --dtype: expected auto, int8 or fp16, found \"q8\"; "));
  CHECK(device({}).prefill == PrefillPath::kOwn);
  CHECK(device({"--prefill", "cublas"}).prefill == PrefillPath::kCublas);
  CHECK(parse({"--prefill", ""})
            .err.starts_with("specbound test: --prefill: expected own or cublas, found \"\"; "));
}

TEST_CASE("--kv int8 is no choice of a device") {
  CHECK(device({}).kv == KvType::kFp16);
  CHECK(device({"--kv", "fp16"}).kv == KvType::kFp16);
  CHECK(device({"--kv", "int8"}).kv == KvType::kInt8);
  CHECK(parse({"--kv", "int8"}).model.cpu_options().kv == KvType::kInt8);
  for (const char* bad : {"", "f16", "INT8", "q8_0", "8", "int8,fp16", "int8 "}) {
    const Given f = parse({"--kv", bad});
    CHECK_MESSAGE(f.status == 2, bad);
    CHECK(f.err.starts_with("specbound test: --kv: expected fp16 or int8, found"));
    if (*bad) expect_error(ErrorCode::kUsage, [&] { read_kv_type(bad); });
  }
  CHECK(parse({"--kv"}).status == 2);

  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{},
                                             {"--device", "cpu"},
                                             {"--device", "cuda:3"},
                                             {"-ngl", "3"},
                                             {"-ngl", "all", "--dtype", "int8"},
                                             {"--prefill", "cublas"}}) {
    std::vector<std::string> more = flags;
    more.insert(more.end(), {"--kv", "int8"});
    const DeviceChoice found = choose(more, two_gpus), expected = choose(flags, two_gpus);
    CHECK(found.gpu == expected.gpu);
    CHECK(found.layers == expected.layers);
    CHECK(found.note == expected.note);
  }
}

TEST_CASE("left to itself it takes the first GPU, and says why it does not") {
  const DeviceChoice gpu = choose({}, two_gpus);
  CHECK(gpu.gpu == 1);
  CHECK(gpu.note == "");
  CHECK(choose({"--dtype", "fp16", "--prefill", "cublas"}, two_gpus).gpu == 1);
  // Nobody expects a GPU of a build without one.
  CHECK(!choose({}, not_built).gpu);
  CHECK(choose({}, not_built).note == "");
  for (GpuSurvey (*machine)() : {no_driver, old_driver, no_gpu}) {
    const DeviceChoice cpu = choose({}, machine);
    CHECK(!cpu.gpu);
    CHECK(cpu.note == machine().why_not + ": every layer runs on the CPU, with weights as stored");
  }
  for (GpuSurvey (*machine)() : {not_built, no_driver, old_driver, no_gpu}) {
    const DeviceChoice cpu = choose({"-ngl", "all", "--dtype", "int8"}, machine);
    CHECK(!cpu.gpu);
    CHECK(with_flags(cpu.note).starts_with("-ngl all --dtype int8: " + machine().why_not +
                                           ": every layer"));
    CHECK(with_flags(choose({"-ngl", "3"}, machine).note)
              .starts_with("-ngl 3: " + machine().why_not + ": every layer"));
    CHECK(with_flags(choose({"--prefill", "cublas"}, machine).note)
              .starts_with("--prefill cublas: "));
  }
}

TEST_CASE("the CPU is never asked about, and has no use for the flags of a GPU") {
  const auto asked = []() -> GpuSurvey { throw std::string("asked"); };
  for (const std::vector<std::string>& cpu : std::vector<std::vector<std::string>>{
           {"--device", "cpu"}, {"-ngl", "0"}, {"--device", "cpu", "-ngl", "0"}}) {
    const DeviceChoice choice = choose_device(device(cpu), any_model(), {}, asked);
    CHECK(!choice.gpu);
    CHECK(choice.note == "");
    std::vector<std::string> more = cpu;
    more.insert(more.end(), {"--dtype", "fp16", "--prefill", "cublas"});
    check_mentions(refusal(ErrorCode::kUsage, more, two_gpus),
                   {"--dtype fp16 --prefill cublas: for a GPU only", cpu.front(), "as stored"});
  }
}

TEST_CASE("flags that contradict each other are refused") {
  CHECK(refusal(ErrorCode::kUsage, {"--device", "cuda:2", "-ngl", "0"}, two_gpus)
            .starts_with("--device cuda:2 and -ngl 0 contradict each other"));
  CHECK(refusal(ErrorCode::kUsage, {"--device", "cpu", "-ngl", "99"}, two_gpus)
            .starts_with("--device cpu and -ngl all contradict each other"));
  CHECK(refusal(ErrorCode::kUsage, {"--device", "cpu", "-ngl", "3"}, two_gpus)
            .starts_with("--device cpu and -ngl 3 contradict each other"));
}

TEST_CASE("a GPU that was asked for by name is had, or the error says why not") {
  CHECK(choose({"--device", "cuda"}, two_gpus).gpu == 1);
  CHECK(choose({"--device", "cuda:3", "-ngl", "all"}, two_gpus).gpu == 3);
  CHECK(choose({"-ngl", "all", "-t", "3", "--isa", "portable", "--no-repack"}, two_gpus).gpu == 1);
  CHECK(refusal(ErrorCode::kUsage, {"--device", "cuda:0"}, two_gpus) ==
        "--device cuda:0: there is no such GPU; there is cuda:1 (GPU 1), cuda:3 (GPU 3)");
  check_mentions(refusal(ErrorCode::kUsage, {"--device", "cuda"}, not_built),
                 {"--device cuda: this build has no GPU backend", "CUDA toolkit"});
  for (GpuSurvey (*machine)() : {no_driver, old_driver, no_gpu}) {
    check_mentions(refusal(ErrorCode::kDevice, {"--device", "cuda:1"}, machine),
                   {"--device cuda:1: " + machine().why_not, "leave out --device"});
  }
}

TEST_CASE("a model that the kernels cannot run goes to the CPU, or is refused there") {
  ModelConfig odd = any_model(), large = any_model(), mixture = any_model();
  odd.dim = 255;
  large.vocab_size = (1 << 20) + 1;
  mixture.n_experts = mixture.n_experts_used = 33;
  for (const ModelConfig& config : {odd, large, mixture}) {
    const DeviceChoice cpu = choose({}, two_gpus, config);
    CHECK(!cpu.gpu);
    check_mentions(cpu.note, {"the GPU kernels cannot run this model", "runs on the CPU"});
    CHECK(refusal(ErrorCode::kUnsupported, {"-ngl", "all"}, two_gpus, config)
              .starts_with("-ngl all: the GPU kernels cannot run this model: its "));
    CHECK(refusal(ErrorCode::kUnsupported, {"-ngl", "7"}, two_gpus, config)
              .starts_with("-ngl 7: the GPU kernels cannot run this model: its "));
    check_mentions(refusal(ErrorCode::kUnsupported, {"--device", "cuda"}, two_gpus, config),
                   {"--device cuda: the GPU", "--device cpu runs it"});
  }
  large.vocab_size = 1 << 20;
  CHECK(choose({}, two_gpus, large).gpu == 1);

  // Experts of floats, unless they are made INT8.
  mixture.n_experts = mixture.n_experts_used = 2;
  Weights weights;
  weights.layers.resize(1);
  LayerWeights& layer = weights.layers[0];
  for (Matrix* m : {&layer.w_gate, &layer.w_up, &layer.w_down})
    *m = {DType::kQ8_0, 64, 64, nullptr};
  CHECK(choose({}, two_gpus, mixture, weights).gpu == 1);
  layer.w_up.type = DType::kF16;
  const DeviceChoice cpu = choose({}, two_gpus, mixture, weights);
  CHECK(!cpu.gpu);
  check_mentions(cpu.note, {"its experts are F16", "dtype=int8", "runs on the CPU"});
  CHECK(choose({"--dtype", "int8"}, two_gpus, mixture, weights).gpu == 1);
}

TEST_CASE("help says where a build without a GPU backend runs") {
  const std::string help = parse({"--help"}).out;
  for (const char* flag : {"--device", "--gpu-layers", "--dtype", "--prefill"}) {
    CHECK(help.find(flag) != std::string::npos);
  }
  CHECK((help.find("this build has no GPU backend") == std::string::npos) == gpu_engine().built());
}

}  // namespace device_choice_test
