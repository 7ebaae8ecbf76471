// Limits of control groups: the least of all groups above the process, of both versions.
#include "engine/cgroup.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "temp_dir.h"

namespace cgroup_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// What a system shows: files by their place below the root, and the process's groups.
class System {
 public:
  System(const std::string& groups, const std::map<std::string, std::string>& files) {
    std::ofstream(temp_ / "groups") << groups;
    for (const auto& [name, text] : files) {
      const std::filesystem::path path = temp_ / ("root/" + name);
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << text << "\n";
    }
  }
  CgroupFiles files() const { return {temp_ / "groups", temp_ / "root"}; }

 private:
  TempDir temp_;
};

}  // namespace

TEST_CASE("control groups: of version 2 the least limit of all above the process") {
  const System system("0::/slice/job/step\n", {{"slice/cpu.max", "150000 100000"},
                                               {"slice/job/cpu.max", "max 100000"},
                                               {"slice/job/step/cpu.max", "300000 100000"},
                                               {"slice/memory.max", "1000"},
                                               {"slice/memory.current", "900"},
                                               {"slice/memory.stat",
                                                "anon 250\nfile 600\nactive_file 200\n"
                                                "inactive_file 300\nslab_reclaimable 50"},
                                               {"slice/job/memory.max", "900"},
                                               {"slice/job/memory.current", "100"},
                                               {"slice/job/step/memory.max", "max"},
                                               {"other/memory.max", "1"},
                                               {"other/cpu.max", "1 100000"}});
  CHECK(cgroup_cores(system.files()) == 1.5);
  const CgroupMemory memory = cgroup_memory(system.files());
  CHECK(memory.limit_bytes == 900);
  CHECK(memory.free_bytes == 650);  // of the outer one: 1000 less the 350 that stay
}

TEST_CASE("control groups: of version 1, and both together") {
  const System system(
      "9:name=systemd:/\n4:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n1:cpuset:/\n0::/a\n",
      {{"cpu,cpuacct/docker/x/cpu.cfs_quota_us", "250000"},
       {"cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000"},
       {"cpu/cpu.cfs_quota_us", "-1"},
       {"cpu/cpu.cfs_period_us", "100000"},
       {"memory/memory.limit_in_bytes", "9223372036854771712"},
       {"memory/docker/x/memory.limit_in_bytes", "5000"},
       {"memory/docker/x/memory.usage_in_bytes", "4000"},
       {"memory/docker/x/memory.stat",
        "inactive_file 1\ntotal_inactive_file 1000\ntotal_active_file 500"},
       {"unified/a/cpu.max", "400000 100000"},
       {"unified/a/memory.max", "4800"},
       {"unified/a/memory.current", "1000"}});
  CHECK(cgroup_cores(system.files()) == 2.5);
  const CgroupMemory memory = cgroup_memory(system.files());
  CHECK(memory.limit_bytes == 4800);
  CHECK(memory.free_bytes == 2500);
}

TEST_CASE("control groups: none, without limits, or of no sense") {
  for (const char* text : {"max", "-1", "", "x", "0x10", "18446744073709551616"}) {
    CAPTURE(text);
    const System system("0::/\n1:cpu:/\n2:memory:/\nnonsense\n",
                        {{"cpu.max", std::string(text) + " 100000"},
                         {"cpu/cpu.cfs_quota_us", text},
                         {"cpu/cpu.cfs_period_us", "100000"},
                         {"memory.max", text},
                         {"memory/memory.limit_in_bytes", text}});
    CHECK_FALSE(cgroup_cores(system.files()));
    CHECK_FALSE(cgroup_memory(system.files()).limit_bytes);
    CHECK_FALSE(cgroup_memory(system.files()).free_bytes);
  }
  CHECK_FALSE(cgroup_cores({"/nowhere", "/nowhere"}));
}

}  // namespace cgroup_test
