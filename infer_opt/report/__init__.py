"""What a compile leaves behind for people and machines: report.json, report.html and manifest.json."""

from __future__ import annotations

from infer_opt.report.html import PAGE, missing_for_page, write_page
from infer_opt.report.manifest import MANIFEST, BrokenArtifactError, Manifest, read_manifest, write_manifest
from infer_opt.report.report import (
    LATENCIES,
    REPORT,
    PassReport,
    Report,
    error_table,
    samples_in_words,
    write_latencies,
    write_report,
)

__all__ = [
    "LATENCIES",
    "MANIFEST",
    "PAGE",
    "REPORT",
    "BrokenArtifactError",
    "Manifest",
    "PassReport",
    "Report",
    "error_table",
    "missing_for_page",
    "read_manifest",
    "samples_in_words",
    "write_latencies",
    "write_manifest",
    "write_page",
    "write_report",
]
