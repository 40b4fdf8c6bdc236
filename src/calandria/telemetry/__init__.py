"""What runs do, told to the outside: structured logging."""

from calandria.telemetry.formatters import JsonFormatter, KeyValueFormatter
from calandria.telemetry.logging import LoggingMiddleware, configure_logging

__all__ = ["JsonFormatter", "KeyValueFormatter", "LoggingMiddleware", "configure_logging"]
