"""Acts of principals and tokens, and the register of them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from curator_service.api.acts import PAGE, Acts, After, AtHost, Count, Host, RetryKey
from curator_service.api.context import RequestContext
from curator_service.identity.names import STORED_MAX, NameRefused
from curator_service.identity.policy import Action, Objects, Role
from curator_service.identity.repository import Principal
from curator_service.identity.service import DAYS_MAX, GRACE_S_MAX, IdentityError, IdentityService
from curator_service.kit.problems import NotFound, RequestInvalid
from curator_service.kit.wire import Name
from curator_service.register.response_models import (
    CallerAnswer,
    NewTokenAnswer,
    PrincipalAnswer,
    PrincipalsAnswer,
    RegisterAnswer,
    SignInAnswer,
    TokenAnswer,
    TokensAnswer,
)
from curator_service.register.service import Register

acts = Acts("identity")
Whose = Annotated[Name, Field(description="Name of the principal.")]
TokenId = Annotated[str, Field(description="A token's id, the part between the underscores; `tokens list` shows it.")]
Grace = Annotated[
    int, Field(ge=0, le=GRACE_S_MAX, description="Seconds for which the old token goes on."), AtHost(int, "--grace")
]
Roles = Annotated[
    list[Role], Field(description="A role of the principal; again for each."), AtHost(list[Role], "--role")
]


@acts.route(Action.READ_SELF, "GET /v1/me", "whoami")
def whoami(context: RequestContext) -> CallerAnswer:
    """Show who you are for the curator, with which roles, and until when."""
    return CallerAnswer.of_call(context.caller, context.get(IdentityService).people.look().find(context.principal.id))


@acts.route(
    Action.ROTATE,
    "POST /v1/me/token/rotate",
    "tokens rotate",
    key=RetryKey.OPTIONAL,
    status=201,
    consequence="The token that you use now ends after its grace",
    example={"grace_s": 3600},
)
def rotate_token(context: RequestContext, grace_s: Grace = 0) -> NewTokenAnswer:
    """Make a token in the place of the one that is sent, of the same principal, roles and lifetime.

    The old token ends at once, or after a grace.
    """
    if not context.caller.token_id:
        raise RequestInvalid.at("", "you signed in at an identity provider, which renews what you send")
    by, key = context.principal, context.retry_key
    try:
        made = context.get(IdentityService).rotate_token(
            context.caller.token_id, grace_s=grace_s, actor=by.id, of=by, key=key
        )
    except IdentityError as error:
        raise RequestInvalid.at("", str(error)) from None
    return NewTokenAnswer.of_new(*made)


@acts.command("tokens rotate")
def rotate_token_of(context: RequestContext, token_id: TokenId, grace_s: Grace = 0) -> NewTokenAnswer:
    """Make a token in the place of another one, of the same principal, roles and lifetime."""
    made = context.get(IdentityService).rotate_token(token_id, grace_s=grace_s, actor=context.principal.id)
    return NewTokenAnswer.of_new(*made)


@acts.route(Action.READ_PRINCIPALS, "GET /v1/admin/principals", "principals list", host=Host.OPERATOR)
def list_principals(context: RequestContext) -> PrincipalsAnswer:
    """List principals and their roles."""
    identity = context.get(IdentityService)
    found = identity.list_principals()
    people = identity.people.look().find_all(one.id for one in found)
    return PrincipalsAnswer.model_construct(principals=list(map(PrincipalAnswer.of, found, people)))


@acts.command("principals appoint")
def appoint_principal(
    context: RequestContext, name: Annotated[Name, Field(description="Name of the principal.")], roles: Roles
) -> PrincipalAnswer:
    """Give a principal these roles, and no others."""
    identity = context.get(IdentityService)
    appointed = identity.set_roles(name, *roles, actor=context.principal.id)
    return PrincipalAnswer.of(appointed, identity.people.look().find(appointed.id))


@acts.route(
    Action.NAME,
    "POST /v1/principals/{name}/display-name",
    "principals name",
    host=Host.OPERATOR,
    example={"display_name": "Ada Lovelace", "email": "ada@hospital.example"},
)
def name_person(
    context: RequestContext,
    name: Whose,
    display_name: Annotated[str, Field(max_length=STORED_MAX, description="The name, in any script.")],
    email: Annotated[str, Field(max_length=STORED_MAX, description="The e-mail address. None if empty.")] = "",
) -> PrincipalAnswer:
    """Set the name and the e-mail of a person, which are displayed beside the name here.

    Everybody names themselves, an operator everybody.
    """
    people, principal = context.get(IdentityService).people, find_named(context, name)
    try:
        people.name(principal.id, display_name, email, actor=context.principal.id)
    except NameRefused as error:
        raise RequestInvalid.at(f"/{error.member}", str(error)) from None
    return PrincipalAnswer.of(principal, people.look().find(principal.id))


@acts.route(
    Action.ERASE_NAME,
    "POST /v1/principals/{name}/display-name/erase",
    "principals forget",
    host=Host.OPERATOR,
    consequence="The name and the e-mail are deleted, and no provider states them again",
)
def erase_name(context: RequestContext, name: Whose) -> PrincipalAnswer:
    """Erase the displayed name and the e-mail of a person; entries keep the id, and verify as before.

    Everybody erases their own, privacy officers and operators those of everybody.
    """
    people, principal = context.get(IdentityService).people, find_named(context, name)
    people.erase(principal.id, actor=context.principal.id)
    return PrincipalAnswer.of(principal, people.look().find(principal.id))


def find_named(context: RequestContext, name: str) -> Principal:
    """Return the principal of a name, if the caller may change how it is displayed.

    Raises
    ------
    IdentityError
        At the machine, if there is none.
    NotFound
    """
    if context.objects is Objects.ALL or name == context.principal.name:
        try:
            return context.get(IdentityService).get_principal(name)
        except IdentityError:
            if context.is_at_host:
                raise
    raise NotFound("There is no principal of this name whose displayed name you may change.")


@acts.route(Action.READ_PRINCIPALS, "GET /v1/admin/tokens", "tokens list", host=Host.OPERATOR)
def list_tokens(context: RequestContext) -> TokensAnswer:
    """List tokens, the oldest first, without their secrets."""
    found = context.get(IdentityService).list_tokens()
    return TokensAnswer.model_construct(tokens=[TokenAnswer.of(one) for one in found])


@acts.route(
    Action.ISSUE,
    "POST /v1/admin/tokens",
    "tokens create",
    host=Host.OPERATOR,
    key=RetryKey.OPTIONAL,
    status=201,
    makes=True,
    example={"name": "ada", "roles": ["analyst"], "read_only": False, "days": 90},
)
def create_token(
    context: RequestContext,
    name: Annotated[Name, Field(description="Name of the person or program.")],
    roles: Annotated[
        list[Literal["analyst", "auditor"]],
        Field(min_length=1, max_length=2, description="A role of the token, and of a new principal; again for each."),
        AtHost(list[Role], "--role"),
    ],
    read_only: Annotated[bool, Field(description="The token may only look.")] = False,
    days: Annotated[int, Field(ge=1, le=DAYS_MAX, description="Days until it expires.")] = 90,
) -> NewTokenAnswer:
    """Make a token, which is shown once and stored as a hash.

    From afar it is for an analyst or an auditor. Whoever holds another role gets tokens at the machine.
    """
    identity, given = context.get(IdentityService), [Role(role) for role in roles]
    if context.is_at_host:
        token = identity.create_token(name, *given, days=days, read_only=read_only, actor=context.principal.id)
        return NewTokenAnswer.of_new(token, identity.get_token(token.id))
    made: dict[str, Any] = {"days": days, "read_only": read_only, "by": context.principal, "key": context.retry_key}
    try:
        return NewTokenAnswer.of_new(*identity.create_token_over_http(name, *given, **made))
    except IdentityError as error:
        raise RequestInvalid.at("/name", str(error)) from None


@acts.route(
    Action.REVOKE,
    "POST /v1/admin/tokens/{token_id}/revoke",
    "tokens revoke",
    host=Host.OPERATOR,
    is_sealed=False,
    consequence="A token that was revoked does not come back",
)
def revoke_token(context: RequestContext, token_id: TokenId) -> TokenAnswer:
    """Revoke a token and what came of it, from the next request on; under a seal, too."""
    identity = context.get(IdentityService)
    if context.is_at_host:
        identity.revoke_token(token_id, actor=context.principal.id)
        return TokenAnswer.of(identity.get_token(token_id))
    try:
        identity.revoke_token_over_http(token_id, context.principal)
    except IdentityError:
        raise NotFound("There is no token of this id that could be revoked.") from None
    return TokenAnswer.of(identity.get_token(token_id))


@acts.route(
    Action.READ_REGISTER, "GET /v1/admin/register", "ledger register", host=Host.OPERATOR, answer=RegisterAnswer
)
def list_register(
    context: RequestContext,
    after: After = 0,
    limit: Count = PAGE,
) -> dict[str, Any]:
    """Show the curator's own acts: principals, tokens and proposals, each with its hash and signature."""
    return {"entries": context.get(Register).list_entries(after=after, count=limit)}


@acts.route(Action.SIGN_IN, "GET /v1/sign-in")
def list_issuers(context: RequestContext) -> SignInAnswer:
    """List the identity providers at which people sign in for this curator."""
    return SignInAnswer.model_construct(issuers=context.get(IdentityService).sign_in_at())
