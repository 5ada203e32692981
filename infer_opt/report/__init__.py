"""What a compile leaves behind for people and machines: report.json and manifest.json."""

from __future__ import annotations

from infer_opt.report.manifest import MANIFEST, BrokenArtifactError, Manifest, read_manifest, write_manifest
from infer_opt.report.report import REPORT, PassReport, Report, error_table, write_report

__all__ = [
    "MANIFEST",
    "REPORT",
    "BrokenArtifactError",
    "Manifest",
    "PassReport",
    "Report",
    "error_table",
    "read_manifest",
    "write_manifest",
    "write_report",
]
