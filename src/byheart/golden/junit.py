"""Write the report of an engine check as JUnit XML for continuous integration, with one test for each case and each way of running
the engine.
"""

from __future__ import annotations

from xml.etree import ElementTree

from byheart.golden.diagnosis import headline
from byheart.golden.report import Report


def junit_xml(report: Report) -> str:
    """Return the report as XML.

    A failed test shows the expected answer, the actual answer, and the likely fault of the engine.
    """
    suite = ElementTree.Element(
        "testsuite",
        name=f"byheart golden, {report.engine}, {report.number_type}",
        tests=str(len(report.outcomes)),
        failures=str(len(report.wrong)),
        errors="0",
    )
    likely = "; ".join(headline(report.suspicions))
    for outcome in report.outcomes:
        test = ElementTree.SubElement(suite, "testcase", classname=outcome.case.name, name=outcome.way)
        if not outcome.is_right:
            failure = ElementTree.SubElement(test, "failure", message=f"Wrong answer. {likely}")
            asked, expected = list(outcome.case.prompt), list(outcome.case.expected(outcome.way))
            failure.text = f"prompt {asked}\nexpected {expected}\nanswer {list(outcome.answer)}"
            if outcome.wrong_logits:
                failure.text += f"\n{outcome.way}: wrong at the indices {list(outcome.wrong_logits)}"
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)
