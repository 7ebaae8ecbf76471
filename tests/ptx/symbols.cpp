#include "ptx/symbols.h"

#include <dlfcn.h>
#include <elf.h>

#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <vector>

#include "ptx/program.h"

namespace ptx {

namespace {

// Address in the file -> mangled name, of all functions.
std::map<uint64_t, std::string> read_symbols() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  const auto at = [&](uint64_t offset, uint64_t size) {
    if (offset > bytes.size() || size > bytes.size() - offset) {
      throw std::runtime_error("the program's own file is cut off");
    }
    return bytes.data() + offset;
  };
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(at(0, sizeof(Elf64_Ehdr)));
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(
      at(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr)));
  std::map<uint64_t, std::string> names;
  for (unsigned s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const Elf64_Shdr& strings = sections[sections[s].sh_link];
    const char* const text = at(strings.sh_offset, strings.sh_size);
    const auto* symbols =
        reinterpret_cast<const Elf64_Sym*>(at(sections[s].sh_offset, sections[s].sh_size));
    for (uint64_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Sym); ++i) {
      if (ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC || symbols[i].st_value == 0) continue;
      names.emplace(symbols[i].st_value, text + symbols[i].st_name);
    }
  }
  return names;
}

}  // namespace

std::string function_name(const void* function) {
  static const std::map<uint64_t, std::string> names = read_symbols();
  Dl_info here{};
  if (dladdr(function, &here) == 0) throw std::runtime_error("an address that is no function's");
  const auto base = reinterpret_cast<uint64_t>(here.dli_fbase);
  const auto address = reinterpret_cast<uint64_t>(function);
  auto found = names.find(address - base);
  if (found == names.end()) found = names.find(address);  // a program that cannot be moved
  if (found == names.end()) throw std::runtime_error("no symbol for a kernel: a stripped program?");
  return demangled(found->second);
}

}  // namespace ptx
