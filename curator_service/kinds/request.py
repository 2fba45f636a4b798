"""Members that a request of any kind of release may have."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from curator_service.kit.names import NAME_PATTERN
from curator_service.kit.wire import STRICT
from curator_service.ledger.schemas import PriceModel
from curator_service.privacy.accountant import Accountant, own_price
from curator_service.privacy.calibration import Calibration, Mechanism

ColumnName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
RESERVATION_PATTERN = r"^res_[0-9a-f]{24}$"


class ReleaseRequest(BaseModel):
    """Members that requests of all kinds share. Each kind adds its own, and the one name of its `kind`."""

    model_config = STRICT

    kind: str
    # JSON has no enumerations of its own: strings become members.
    mechanism: Annotated[Mechanism, Field(strict=False)] = Mechanism.GAUSSIAN
    calibration: Annotated[Calibration, Field(strict=False)] = Calibration.ANALYTIC
    price: PriceModel
    fresh: bool = False
    project: ColumnName | None = None
    reservation: Annotated[str, StringConstraints(pattern=RESERVATION_PATTERN)] | None = None

    def state_price(self) -> dict[str, Any]:
        """Return the price as the caller stated it."""
        return self.price.model_dump(exclude_none=True)

    def own_price(self, accountant: Accountant) -> dict[str, Any]:
        """State the price as an account counts it. Laplace noise and the published formulas read epsilon itself."""
        if self.mechanism is not Mechanism.GAUSSIAN or self.calibration is not Calibration.ANALYTIC:
            return self.state_price()
        own = own_price(accountant, accountant.units_of(self.price.price))
        return self.state_price() if own is None else {accountant.notion: own}
