"""Administration of a curator from afar."""

from analyst_client.admin.curator_admin import CuratorAdmin

__all__ = ["CuratorAdmin"]
