"""The dashboard: pages at `/admin` for people, on the services that the routes of `/v1` use and under their policy."""
