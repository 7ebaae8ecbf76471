// A backend that passes every call on: what test backends that look at some of them are made of.
#pragma once

#include <memory>
#include <utility>

#include "engine/backend.h"

namespace specbound::test {

class ForwardingBackend : public Backend, public DeviceSampling, public BackendInspection {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  const ModelConfig& config() const override { return inner_->config(); }
  int n_ctx() const override { return inner_->n_ctx(); }
  std::string description() const override { return inner_->description(); }
  std::string device() const override { return inner_->device(); }
  void embed(int slot, int32_t token) override { inner_->embed(slot, token); }
  void follow(int slot, int parent) override { inner_->follow(slot, parent); }
  void set_row(int slot, std::span<const float> row) override { inner_->set_row(slot, row); }
  void run_layers(int slot, int n, int pos, int from, int to) override {
    inner_->run_layers(slot, n, pos, from, to);
  }
  void skip_layers(int slot, int n, int pos, int from, int to) override {
    inner_->skip_layers(slot, n, pos, from, to);
  }
  void logits(int slot, int n, float* out) override { inner_->logits(slot, n, out); }
  DeviceSampling* device_sampling() override {
    return inner_->samples_on_device() ? this : nullptr;
  }
  void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
            RowDraw* draws) override {
    inner_->device_sampling()->draw(slot, n, rule, text, draws);
  }
  float confidence(std::span<const float> z, float temperature) const override {
    return inner_->confidence(z, temperature);
  }
  void set_exit_heads(const ExitHeads* heads, int shortlist) override {
    inner_->set_exit_heads(heads, shortlist);
  }
  ExitPeak exit_check(int head, int slot, float temperature) override {
    return inner_->exit_check(head, slot, temperature);
  }
  ExitPeak exit_draw(int head, int slot, float temperature, float least, const DrawRule& rule,
                     std::span<const int32_t> text, std::optional<RowDraw>& draw) override {
    return inner_->device_sampling()->exit_draw(head, slot, temperature, least, rule, text, draw);
  }
  std::span<const float> exit_logits() const override { return inner_->exit_logits(); }
  std::span<const int32_t> exit_ids() const override { return inner_->exit_ids(); }
  bool says_tokens_of_text() const override { return inner_->says_tokens_of_text(); }
  void keep_state(int slot) override { inner_->keep_state(slot); }
  void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
               void* context) override {
    inner_->prefill(tokens, progress, context);
  }
  void prefill_rows(std::span<const int32_t> tokens) override { inner_->prefill_rows(tokens); }
  void prefill_logits(int first, int n, float* out) override {
    inner_->prefill_logits(first, n, out);
  }
  int kv_len(int layer) const override { return inner_->kv_len(layer); }
  void keep_path(int pos, const RowPath& path) override { inner_->keep_path(pos, path); }
  void truncate(int len) override { inner_->truncate(len); }
  void restore(int len) override { inner_->restore(len); }
  void wait() override { inner_->wait(); }
  Device* gpu() override { return inner_->gpu(); }
  const BackendInspection& inspect() const override { return *this; }
  std::span<const float> hidden(int slot) const override { return inner_->inspect().hidden(slot); }
  void read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const override {
    inner_->inspect().read_kv(layer, pos, k, v);
  }

 protected:
  std::unique_ptr<Backend> inner_;
};

}  // namespace specbound::test
