"""Adds up JUnit reports: names failed tests, gives each skipped test's reason, closes with the plain line

    N passed, N failed, N skipped

Exits 1 when a test failed, when a report cannot be read, or when no test ran at all.
"""
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed", ""
    skipped = case.find("skipped")
    if skipped is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped", (skipped.get("message") if skipped is not None else "") or "no reason given"
    return "passed", ""


def main(paths):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    unreadable = 0
    for path in paths:
        try:
            cases = list(ElementTree.parse(path).iter("testcase"))
        except (OSError, ElementTree.ParseError) as error:
            print("unreadable report %s: %s" % (path, error))
            unreadable = 1
            continue
        for case in cases:
            result, reason = outcome(case)
            counts[result] += 1
            if result != "passed":
                # ctest repeats the test's name as its class
                parts = dict.fromkeys(part for part in (case.get("classname"), case.get("name")) if part)
                print("%s: %s%s" % (result, " ".join(parts), ": " + reason if reason else ""))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if unreadable or counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
