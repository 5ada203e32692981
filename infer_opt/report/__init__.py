"""What a compile leaves behind for people and machines: report.json and manifest.json."""

from __future__ import annotations

from infer_opt.report.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from infer_opt.report.report import REPORT, PassReport, Report, write_report

__all__ = [
    "MANIFEST",
    "REPORT",
    "Manifest",
    "PassReport",
    "Report",
    "read_manifest",
    "write_manifest",
    "write_report",
]
