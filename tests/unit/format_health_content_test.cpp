// Structural health of storages, gradients and labels, and the gradient manifest's digest (specification
// §2.3, §2.4, §3.2, §3.3).
#include <gtest/gtest.h>

#include "format/health/gradient_contract.h"
#include "tests/unit/format_health.h"

namespace tensortap::format {
namespace {

constexpr auto kAlloc = MemoryAction::kAlloc;
constexpr auto kFree = MemoryAction::kFree;
constexpr auto kPresent = GradientState::kPresent;
constexpr auto kZero = GradientState::kZero;
constexpr auto kMissing = GradientState::kMissing;
constexpr auto kNonFinite = GradientState::kNonFinite;

HealthStream with_root(HealthOptions options = {}) {
  HealthStream stream(options);
  stream.meta_record().start("r", std::nullopt, 0, true);
  return stream;
}
Texts closed(HealthStream& stream) {
  stream.end("r", 1000000).complete(1000000);
  return stream.issues();
}

// ---- Storages

TEST(StorageHealth, ALifetimeWithAliasesIsFine) {
  HealthStream stream = with_root();
  stream.memory("r", kAlloc, "s", 1, 8, "a").memory("r", kAlloc, "s", 2, 8, "b");
  stream.memory("r", kFree, "s", 3, 8, "b")
      .memory("r", kAlloc, "s", 4, 16, "a")
      .memory("r", kFree, "s", 4, 16);
  EXPECT_EQ(closed(stream), Texts{});
}

TEST(StorageHealth, ContradictionsAreToldInOrderOfTime) {
  HealthStream stream = with_root();
  stream.memory("r", kFree, "s", 40, 9, "a");   // line 3: other size, ends it all the same
  stream.memory("r", kFree, "s", 50, 8, "a");   // line 4: not live
  stream.memory("r", kAlloc, "s", 10, 8, "a");  // line 5
  stream.memory("r", kAlloc, "s", 20, 8, "a");  // line 6: same tensor
  stream.memory("r", kAlloc, "s", 25, 8, "b");  // line 7: alias
  stream.memory("r", kAlloc, "s", 26, 8, "b");  // line 8: again
  stream.memory("r", kAlloc, "s", 30, 4, "c");  // line 9: other size, changes nothing
  stream.memory("r", kAlloc, "s", 31, 8, "c");  // line 10: so this is a first time
  EXPECT_EQ(closed(stream),
            (Texts{"duplicate_allocation 6", "duplicate_allocation 8", "allocation_size_mismatch 9",
                   "allocation_size_mismatch 3", "unpaired_free 4"}));
}

TEST(StorageHealth, EqualTimesKeepStreamOrder) {
  HealthStream free_first = with_root();
  free_first.memory("r", kFree, "s", 5, 8).memory("r", kAlloc, "s", 5, 8);
  EXPECT_EQ(closed(free_first), (Texts{"unpaired_free 3", "w retained_allocations"}));
  HealthStream alloc_first = with_root();
  alloc_first.memory("r", kAlloc, "s", 5, 8).memory("r", kFree, "s", 5, 8);
  EXPECT_EQ(closed(alloc_first), Texts{});
}

TEST(StorageHealth, AStorageBelongsToItsDevice) {
  HealthStream stream = with_root();
  stream.memory("r", kAlloc, "s", 1, 8, "t", "cpu").memory("r", kAlloc, "s", 2, 4, "t", "cuda:0");
  stream.memory("r", kFree, "s", 3, 4, "t", "cuda:0").memory("r", kFree, "s", 4, 4, "t", "cuda:1");
  stream.memory("r", kAlloc, "1/s", 5, 8, "t", "").memory("r", kFree, "s", 6, 8, "t", "1/");
  EXPECT_EQ(closed(stream), (Texts{"unpaired_free 6", "unpaired_free 8", "w retained_allocations"}));
  EXPECT_EQ(stream.health.finish().issues.back().message, "the trace has no device_interval record");
  for (const HealthIssue& issue : stream.health.finish().issues) {
    if (issue.code == "retained_allocations") {
      EXPECT_EQ(issue.message, "2 storages are still live at the end");
    }
  }
}

// Each storage's free comes before its allocation, `count` records earlier in the stream.
void write_frees_first(HealthStream& stream, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t i = first; i < first + count; ++i) {
    stream.memory("r", kFree, "s" + std::to_string(i), 2 * i + 1, 8);
  }
  for (std::uint64_t i = first; i < first + count; ++i) {
    stream.memory("r", kAlloc, "s" + std::to_string(i), 2 * i, 8);
  }
}

TEST(StorageHealth, AnyDisorderIsPutInOrder) {
  HealthStream stream = with_root();
  write_frees_first(stream, 0, 20000);
  EXPECT_EQ(closed(stream), Texts{});
  EXPECT_EQ(stream.health.late_memory_records(), 0U);
}

TEST(StorageHealth, WithoutAllRecordsLateOnesAreCounted) {
  HealthStream stream = with_root({.most_issues_per_code = 1, .any_memory_order = false});
  write_frees_first(stream, 0, 20000);
  EXPECT_EQ(closed(stream), (Texts{"unpaired_free 3", "w retained_allocations"}));
  EXPECT_GT(stream.health.late_memory_records(), 0U);
}

TEST(StorageHealth, DisorderOfAFewThousandRecordsIsPutInOrderAlways) {
  HealthStream stream = with_root({.any_memory_order = false});
  for (std::uint64_t round = 0; round < 20; ++round) write_frees_first(stream, 2000 * round, 2000);
  EXPECT_EQ(closed(stream), Texts{});
  EXPECT_EQ(stream.health.late_memory_records(), 0U);
}

// ---- Gradients

TEST(GradientHealth, TheNormFitsTheState) {
  HealthStream stream = with_root();
  const double infinity = std::numeric_limits<double>::infinity();
  stream.gradient("1", "p", "a", kPresent, 1.0).gradient("2", "p", "b", kPresent, 0.0);
  stream.gradient("3", "p", "c", kPresent).gradient("4", "p", "d", kPresent, infinity);
  stream.gradient("5", "p", "e", kZero, 0.0)
      .gradient("6", "p", "f", kZero, -0.0)
      .gradient("7", "p", "g", kZero);
  stream.gradient("8", "p", "h", kMissing).gradient("9", "p", "i", kMissing, 0.0);
  stream.gradient("10", "p", "j", kNonFinite).gradient("11", "p", "k", kNonFinite, 1.0);
  Texts wanted;
  for (int line : {4, 5, 6, 8, 9, 11, 13}) {
    wanted.push_back("gradient_state_norm_inconsistent " + std::to_string(line));
  }
  EXPECT_EQ(closed(stream), wanted);
}

TEST(GradientHealth, IdsAndKeysAreNotBlankAndIdsNotRepeated) {
  HealthStream stream = with_root();
  stream.gradient(" ", "p", "a", kMissing)
      .gradient("1", "", "a", kMissing)
      .gradient("1", "p", "\t", kMissing);
  EXPECT_EQ(closed(stream), (Texts{"empty_gradient_event_id 3", "empty_gradient_parameter_key 4",
                                   "empty_gradient_parameter_key 5", "duplicate_gradient_event_id 5"}));
}

GradientContract contract_of(std::vector<GradientContract::Entry> expected,
                             std::vector<GradientContract::Family> families) {
  GradientContract contract{"", std::move(expected), std::move(families)};
  contract.manifest_sha256 = gradient_manifest_digest(contract.expected);
  return contract;
}

HealthStream with_contract(GradientContract contract, Coverage coverage = Coverage::kComplete) {
  HealthStream stream;
  stream.meta.capture_contract.gradients = coverage;
  stream.meta.capture_contract.gradient_contract = std::move(contract);
  stream.meta_record().start("r", std::nullopt, 0, true);
  return stream;
}

TEST(GradientHealth, TheManifestsDigestIsTheSpecifications) {
  EXPECT_EQ(gradient_manifest_digest({{"p", "w", "f"}}),
            "sha256:3f8a7b1824ac7d69ccc623de68d6c36e3719a5a9890097bb632c4fb8c24f4376");
  EXPECT_EQ(gradient_manifest_digest({{"p", "b", "f"}, {"p", "w", "f"}}),
            "sha256:9eb1ae250633c78572eb350fd9584bad1c483d9d4852852eba08d207a375d778");
  EXPECT_EQ(gradient_manifest_digest({{"p", "w", "f"}, {"p", "b", "f"}}),
            "sha256:6809bd742b1cb8d41f12f6e5b461d22e99225aaea4a68a20d7b2db34c291d985");
}

TEST(GradientHealth, AContractHoldsTogether) {
  using E = Expectation;
  const GradientContract good =
      contract_of({{"p", "w", "f"}, {"p", "b", "g"}}, {{"f", E::kActive, 1}, {"g", E::kInactive, 0}});
  EXPECT_EQ(gradient_contract_fault(good), std::nullopt);
  const auto is_faulty = [](GradientContract contract) {
    contract.manifest_sha256 = gradient_manifest_digest(contract.expected);
    return gradient_contract_fault(contract).has_value();
  };
  EXPECT_TRUE(is_faulty(contract_of({}, {{"f", E::kActive, 1}})));
  EXPECT_TRUE(is_faulty(contract_of({{"p", "w", "f"}}, {})));
  EXPECT_TRUE(is_faulty(contract_of({{" ", "w", "f"}}, {{"f", E::kActive, 1}})));
  EXPECT_TRUE(is_faulty(contract_of({{"p", "w", "f"}, {"p", "w", "f"}}, {{"f", E::kActive, 1}})));
  EXPECT_TRUE(is_faulty(contract_of({{"p", "w", "f"}}, {{"f", E::kActive, 1}, {"f", E::kActive, 1}})));
  EXPECT_TRUE(is_faulty(contract_of({{"p", "w", "f"}}, {{"f", E::kActive, 1}, {"h", E::kActive, 1}})));
  EXPECT_TRUE(is_faulty(contract_of({{"p", "w", "f"}}, {{"f", E::kActive, 0}})));
  EXPECT_TRUE(is_faulty(contract_of({{"p", "w", "f"}}, {{"f", E::kDataConditional, 2}})));
  EXPECT_TRUE(is_faulty(contract_of({{"p", "w", "f"}}, {{"f", E::kInactive, 1}})));
  EXPECT_TRUE(is_faulty(contract_of({{"p", "w", "f"}, {"p", "b", "g"}}, {{"f", E::kActive, 1}})));
  GradientContract capitals = good;
  capitals.manifest_sha256[8] = 'A';
  EXPECT_TRUE(gradient_contract_fault(capitals).has_value());
}

TEST(GradientHealth, ClaimAndContractGoTogether) {
  HealthStream none = with_root();
  none.meta.capture_contract.gradients = Coverage::kComplete;
  none.end("r", 1).complete(1);
  const Health missing = none.health.finish(&none.meta);
  EXPECT_EQ(missing.issues.front().code, "gradient_contract_missing");
  HealthStream partial =
      with_contract(contract_of({{"p", "w", "f"}}, {{"f", Expectation::kActive, 1}}), Coverage::kPartial);
  EXPECT_EQ(closed(partial), (Texts{"gradient_contract_without_complete_coverage 1"}));
  GradientContract wrong = contract_of({{"p", "w", "f"}}, {{"f", Expectation::kActive, 1}});
  wrong.manifest_sha256 = "sha256:0";
  HealthStream invalid = with_contract(wrong);
  EXPECT_EQ(closed(invalid), (Texts{"gradient_contract_invalid 1"}));
}

TEST(GradientHealth, KeysAreThoseOfTheManifestEachOnce) {
  HealthStream stream = with_contract(
      contract_of({{"q", "m", "f"}, {"p", "w", "f"}, {"p", "a", "f"}}, {{"f", Expectation::kActive, 1}}));
  stream.gradient("1", "z", "z", kPresent, 1).gradient("2", "p", "w", kPresent, 1);
  stream.gradient("3", "p", "w", kNonFinite)
      .gradient("4", "a", "b", kMissing)
      .gradient("5", "a", "b", kMissing);
  EXPECT_EQ(closed(stream), (Texts{"gradient_manifest_duplicate_key 7", "gradient_manifest_undeclared_key 6",
                                   "gradient_manifest_duplicate_key 5", "gradient_manifest_undeclared_key 3",
                                   "gradient_manifest_missing_key 1", "gradient_manifest_missing_key 1"}));
}

TEST(GradientHealth, FamiliesAreJudgedByTheirExpectation) {
  const auto judged = [](Expectation expectation, std::uint64_t least, std::vector<GradientState> states) {
    HealthStream stream =
        with_contract(contract_of({{"p", "1", "f"}, {"p", "2", "f"}}, {{"f", expectation, least}}));
    int number = 0;
    for (const GradientState state : states) {
      const std::string key = std::to_string(++number);
      const std::optional<double> norm = state == kPresent ? std::optional(1.0)
                                         : state == kZero  ? std::optional(0.0)
                                                           : std::nullopt;
      stream.gradient("e" + key, "p", key, state, norm);
    }
    return closed(stream);
  };
  using E = Expectation;
  EXPECT_EQ(judged(E::kActive, 2, {kPresent, kPresent}), Texts{});
  EXPECT_EQ(judged(E::kActive, 2, {kPresent, kZero}), (Texts{"gradient_active_family_below_minimum 1"}));
  EXPECT_EQ(judged(E::kActive, 1, {kPresent, kNonFinite}), (Texts{"gradient_family_non_finite 4"}));
  EXPECT_EQ(judged(E::kInactive, 0, {kMissing, kMissing}), Texts{});
  EXPECT_EQ(judged(E::kInactive, 0, {kMissing, kZero}), (Texts{"gradient_inactive_family_leakage 4"}));
  EXPECT_EQ(judged(E::kDataConditional, 2, {kZero, kMissing}), Texts{});
  EXPECT_EQ(judged(E::kDataConditional, 2, {kPresent, kMissing}),
            (Texts{"gradient_conditional_family_below_minimum 1"}));
}

TEST(GradientHealth, AFailedCaptureMayLackMembers) {
  const GradientContract contract =
      contract_of({{"p", "1", "f"}, {"p", "2", "f"}}, {{"f", Expectation::kActive, 2}});
  HealthStream lacking = with_contract(contract);
  lacking.gradient("1", "p", "1", kPresent, 1).end("r", 1).fail(1);
  EXPECT_EQ(lacking.issues(), (Texts{"w capture_failed 5", "w gradient_manifest_missing_key 1"}));
  HealthStream all = with_contract(contract);
  all.gradient("1", "p", "1", kPresent, 1).gradient("2", "p", "2", kZero, 0).end("r", 1).fail(1);
  EXPECT_EQ(all.issues(), (Texts{"w capture_failed 6", "gradient_active_family_below_minimum 1"}));
}

// ---- Labels

Texts label_codes(Texts required, Texts gpu, Texts cpu, Texts names, bool failed = false) {
  HealthStream stream;
  stream.meta.capture_contract.required_semantic_labels = std::move(required);
  stream.meta.capture_contract.gpu_expected_semantic_labels = std::move(gpu);
  stream.meta.capture_contract.cpu_only_semantic_labels = std::move(cpu);
  stream.meta_record().start("r", std::nullopt, 0, true, "root");
  int number = 0;
  for (const std::string& name : names) {
    const std::string id = "s" + std::to_string(++number);
    stream.start(id, "r", 0, false, name).end(id, 0);
  }
  stream.end("r", 9);
  failed ? stream.fail(9) : stream.complete(9);
  Texts out = stream.issues();
  for (std::string& text : out) text.erase(text.rfind(' '));
  return out;
}

TEST(LabelHealth, ARequiredLabelIsTheNameOfOneSpan) {
  EXPECT_EQ(label_codes({"a", "b"}, {}, {}, {"a", "b", "c"}), Texts{});
  EXPECT_EQ(label_codes({"a", "b"}, {}, {}, {"a", "a"}),
            (Texts{"required_semantic_label_cardinality", "required_semantic_label_cardinality"}));
  EXPECT_EQ(label_codes({" ", "a", "a"}, {}, {}, {" "}),
            (Texts{"empty_required_semantic_label", "required_semantic_label_cardinality",
                   "duplicate_required_semantic_label", "required_semantic_label_cardinality"}));
  EXPECT_EQ(label_codes({"a"}, {}, {}, {}, true),
            (Texts{"w capture_failed", "w required_semantic_label_cardinality"}));
}

TEST(LabelHealth, ClassesPartitionTheRequiredLabels) {
  EXPECT_EQ(label_codes({"a", "b"}, {"a"}, {"b"}, {"a", "b"}), Texts{});
  EXPECT_EQ(label_codes({"a", "b"}, {"a"}, {}, {"a", "b"}), (Texts{"incomplete_semantic_label_partition"}));
  EXPECT_EQ(label_codes({"a"}, {"a", "a"}, {"a", "", "x"}, {"a"}),
            (Texts{"duplicate_semantic_label_classification", "overlapping_semantic_label_classification",
                   "overlapping_semantic_label_classification", "empty_semantic_label_classification",
                   "unrequired_semantic_label_classification", "unrequired_semantic_label_classification",
                   "incomplete_semantic_label_partition"}));
}

}  // namespace
}  // namespace tensortap::format
