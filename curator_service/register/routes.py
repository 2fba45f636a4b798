"""Routes of principals, tokens, and the curator's own acts."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RETRY_KEY, RequestContext, endpoint, page_parameters, request_body
from curator_service.api.http import json_response
from curator_service.identity.policy import Action, Role
from curator_service.identity.service import IdentityError, IdentityService
from curator_service.kit.problems import PROBLEM_RESPONSES, NotFound, RequestInvalid
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
from curator_service.register.schemas import TOKEN_EXAMPLE, RotationRequest, TokenRequest
from curator_service.register.service import Register

router = APIRouter(prefix="/v1", tags=["identity"], responses=PROBLEM_RESPONSES)


@router.get("/me", summary="Who you are here, and until when", responses={200: {"model": CallerAnswer}})
@endpoint(Action.READ_SELF)
def read_self(
    context: RequestContext,
) -> Response:
    """Return the caller's name and roles, how they are known, and when that ends."""
    return json_response(CallerAnswer.of_call(context.caller))


@router.post(
    "/me/token/rotate",
    summary="A new token in the place of the one that is sent",
    status_code=201,
    responses={201: {"model": NewTokenAnswer}},
    openapi_extra=request_body("RotationRequest", {"grace_s": 3600}) | RETRY_KEY,
)
@endpoint(Action.ROTATE)
def rotate_token(
    context: RequestContext,
) -> Response:
    """Make a token of the same principal, roles and lifetime; the one that is sent ends, now or after a grace."""
    asked = context.call.parse(RotationRequest) if context.call.body else RotationRequest()
    token_id = context.caller.token_id
    if not token_id:
        raise RequestInvalid.at("", "you signed in at an identity provider, which renews what you send")
    try:
        made = context.get(IdentityService).rotate_token(
            token_id,
            grace_s=asked.grace_s,
            actor=context.principal.id,
            of=context.principal,
            key=context.retry_key,
        )
    except IdentityError as error:
        raise RequestInvalid.at("", str(error)) from None
    return json_response(NewTokenAnswer.of_new(*made), 201)


@router.get(
    "/admin/principals",
    summary="Principals and their roles (privacy officer, auditor, operator)",
    responses={200: {"model": PrincipalsAnswer}},
)
@endpoint(Action.READ_PRINCIPALS)
def list_principals(
    context: RequestContext,
) -> Response:
    """Return every principal."""
    found = context.get(IdentityService).list_principals()
    return json_response(PrincipalsAnswer.model_construct(principals=[PrincipalAnswer.of(one) for one in found]))


@router.get(
    "/admin/tokens",
    summary="Tokens, the oldest first, without their secrets (privacy officer, auditor, operator)",
    responses={200: {"model": TokensAnswer}},
)
@endpoint(Action.READ_PRINCIPALS)
def list_tokens(
    context: RequestContext,
) -> Response:
    """Return every token."""
    found = context.get(IdentityService).list_tokens()
    return json_response(TokensAnswer.model_construct(tokens=[TokenAnswer.of(one) for one in found]))


@router.post(
    "/admin/tokens",
    summary="Make a token for an analyst or an auditor (operator)",
    status_code=201,
    responses={201: {"model": NewTokenAnswer}},
    openapi_extra=request_body("TokenRequest", TOKEN_EXAMPLE) | RETRY_KEY,
)
@endpoint(Action.ISSUE)
def create_token(
    context: RequestContext,
) -> Response:
    """Make a token; whoever holds another role than these is appointed at the machine, and gets tokens there."""
    asked = context.call.parse(TokenRequest)
    roles = [Role(name) for name in asked.roles]
    try:
        made = context.get(IdentityService).create_token_over_http(
            asked.name,
            *roles,
            days=asked.days,
            read_only=asked.read_only,
            by=context.principal,
            key=context.retry_key,
        )
    except IdentityError as error:
        raise RequestInvalid.at("/name", str(error)) from None
    return json_response(NewTokenAnswer.of_new(*made), 201)


@router.post(
    "/admin/tokens/{token_id}/revoke",
    summary="Revoke a token, under a seal too (operator, privacy officer)",
    responses={200: {"model": TokenAnswer}},
)
@endpoint(Action.REVOKE)
def revoke_token(
    context: RequestContext,
    token_id: str,
) -> Response:
    """Revoke a token, from the next request on."""
    identity = context.get(IdentityService)
    try:
        identity.revoke_token_over_http(token_id, context.principal)
    except IdentityError:
        raise NotFound("There is no token of this id that could be revoked.") from None
    return json_response(TokenAnswer.of(identity.get_token(token_id)))


@router.get(
    "/admin/register",
    summary="The curator's own acts: whom it knows, which tokens it issued (privacy officer, auditor)",
    responses={200: {"model": RegisterAnswer}},
    openapi_extra=page_parameters("entries"),
)
@endpoint(Action.READ_REGISTER)
def list_acts(
    context: RequestContext,
) -> Response:
    """Return a page of the register after a sequence, each entry with its hash and signature."""
    after, count = context.page()
    return json_response({"entries": context.get(Register).list_entries(after=after, count=count)})


@router.get(
    "/sign-in",
    summary="Where to sign in, for whoever has no token",
    responses={200: {"model": SignInAnswer}},
    openapi_extra={"security": []},
)
@endpoint(Action.SIGN_IN)
def list_issuers(
    context: RequestContext,
) -> Response:
    """Return the identity providers at which somebody may sign in for this curator."""
    return json_response(SignInAnswer.model_construct(issuers=context.get(IdentityService).sign_in_at()))
