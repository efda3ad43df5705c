#include "collector/meta_line.h"

#include <optional>

#include "format/line_reader.h"
#include "format/line_writer.h"

namespace tensortap::collector {

namespace {

struct MetaCatcher : format::EventVisitor {
  std::optional<format::Meta> meta;
  void on_meta(const format::Meta& found, const format::Place&) override { meta = found; }
};

}  // namespace

format::Result<std::string> changed_meta_line(std::string_view line,
                                              const std::function<void(format::Meta&)>& change) {
  MetaCatcher catcher;
  format::LineReader reader;
  if (format::Status status = reader.read(line, {}, catcher); !status) return status.error();
  if (!catcher.meta) {
    return format::Error{format::ErrorCode::kMalformed, "the first line is no meta record"};
  }
  change(*catcher.meta);
  std::string changed;
  format::LineWriter(changed).write(*catcher.meta);
  return changed;
}

}  // namespace tensortap::collector
