// The subcommands, one file each. argv[0] is the subcommand's own name. Each returns the exit
// status (0 fine, 1 run-time failure, 2 usage) and may throw Error, which main prints as one line.
#pragma once

namespace specbound {

int command_run(int argc, char** argv);
int command_chat(int argc, char** argv);
int command_gui(int argc, char** argv);
int command_serve(int argc, char** argv);
int command_lens(int argc, char** argv);
int command_verify(int argc, char** argv);
int command_train_heads(int argc, char** argv);
int command_tune(int argc, char** argv);
int command_theory(int argc, char** argv);
int command_bench(int argc, char** argv);
int command_spec_bench(int argc, char** argv);
int command_ppl(int argc, char** argv);
int command_convert(int argc, char** argv);
int command_quantize(int argc, char** argv);
int command_info(int argc, char** argv);
int command_doctor(int argc, char** argv);
int command_tokenize(int argc, char** argv);
int command_detokenize(int argc, char** argv);
int command_help(int argc, char** argv);
int command_man(int argc, char** argv);
int command_completion(int argc, char** argv);

}  // namespace specbound
