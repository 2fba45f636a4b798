"""Run migrations on the connection that the service hands over."""

from alembic import context

from curator_service.dashboard import models as _dashboard  # noqa: F401 -- registers its tables
from curator_service.datasets import models as _datasets  # noqa: F401
from curator_service.identity import models as _identity  # noqa: F401
from curator_service.kit.db import Base
from curator_service.ledger import models as _ledger  # noqa: F401
from curator_service.releases import models as _releases  # noqa: F401
from curator_service.sessions import models as _sessions  # noqa: F401

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
