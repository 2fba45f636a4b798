import json
import pytest
from dashboard_worlds import Person, text_of, fields_of
from support import TERMS, World, body, make_rows
from curator_service.identity.policy import Role
from test_two_people_attacks import swap_names, id_of

def test_message_author(both):
    world = both
    for n in ("olga", "otto"): world.add_token(n, Role.PRIVACY_OFFICER)
    asked = world.api("ada").post("/v1/permits", json=TERMS).json()["id"]
    world.api("ada").post(f"/v1/proposals/{asked}/messages", json={"text": "hello"})
    swap_names(world, "ada", "olga")
    otto = Person(world, "otto")
    page = text_of(otto.get(f"/admin/proposals/{asked}").text)
    a = world.api("otto").get(f"/v1/admin/proposals/{asked}").json()
    print(a["messages"], a["proposer"], page[page.index("Questions and"):][:200])
    assert a["messages"][0]["by"] == "ada"

def test_nul(both):
    world = both
    world.add_token("olga", Role.PRIVACY_OFFICER, Role.AUDITOR, Role.OPERATOR, Role.STEWARD)
    olga = Person(world, "olga")
    out = {}
    for nul in ("%00", "%ff", "%ed%a0%80", "%F0%9F%98%80", "x"*3000, "..", "%2e%2e"):
      for page in ("/admin/releases/{}", "/admin/releases/{}/evidence", "/admin/proposals/{}", "/admin/people/{}", "/admin/tokens/{}/rotate", "/admin/asked/{}", "/admin/populations/{}/ledger", "/admin/populations/town/ledger/{}", "/admin/releases?population={}", "/admin/releases?who={}&permit={}&dataset={}&month={}&column={}&kind={}", "/admin/people?q={}", "/admin/tokens?q={}", "/admin/inbox/{}", "/admin/inbox?q={}", "/admin/proposals?q={}&state={}&about={}", "/admin/releases?before={}", "/admin/permits/{}","/admin/sessions/{}", "/admin/populations/town/ledger?kind={}&actor={}&permit={}&month={}","/admin/datasets/{}","/admin/populations/{}", "/admin/surveys/{}", "/admin/spending?month={}"):
        s = olga.get(page.replace("{}", nul)).status_code
        if s >= 500: out[page + nul[:10]] = s
      for page in ("/v1/admin/questions/{}", "/v1/admin/populations/{}/questions", "/v1/admin/populations/town/questions?dataset={}&kind={}&column={}", "/v1/admin/proposals/{}", "/v1/proposals/{}", "/v1/admin/populations/town/questions?before={}"):
        s = world.api("olga").get(page.replace("{}", nul)).status_code
        if s >= 500: out[page + nul[:10]] = s
      for post in ("/v1/admin/tokens/{}/revoke", "/v1/principals/{}/display-name/erase", "/v1/admin/proposals/{}/messages", "/v1/proposals/{}/messages"):
        s = world.api("olga").post(post.replace("{}", nul), json={"text": "x"} if "messages" in post else None).status_code
        if s >= 500: out[post + nul[:10]] = s
    assert not out, out

def test_post_values(both):
    world = both
    world.add_token("olga", Role.PRIVACY_OFFICER, Role.OPERATOR, Role.STEWARD)
    world.add_token("otto", Role.PRIVACY_OFFICER)
    asked = world.api("ada").post("/v1/permits", json=TERMS).json()["id"]
    out = {}
    for text in ("\x00", "\ud800", "\u2028", "\u202e", "\ufffe", "a\u0000b", "\U000e0041", "x"*500, "\u0000"*10, "\ud83d"):
        for who, url, js in (("olga", f"/v1/admin/proposals/{asked}/messages", {"text": text}), ("ada", f"/v1/proposals/{asked}/messages", {"text": text}), ("olga", "/v1/principals/ada/display-name", {"display_name": "a"+text, "email": ""}), ("olga", "/v1/principals/ada/display-name", {"display_name": "a", "email": text}), ("olga", "/v1/admin/proposals/x/reject", {"reason": text})):
            try:
                r = world.api(who).post(url, content=json.dumps(js).encode(), headers={"content-type": "application/json"})
                if r.status_code >= 500: out[(url, text)] = (r.status_code, r.text)
            except Exception as e:
                out[(url, repr(text))] = repr(e)[:200]
    for page in (f"/v1/admin/proposals/{asked}",):
        r = world.api("otto").get(page)
        if r.status_code >= 500: out[page] = r.status_code
    otto = Person(world, "otto")
    p = otto.get(f"/admin/proposals/{asked}")
    if p.status_code >= 500: out["page"] = p.status_code
    assert "\u202e" not in p.text
    assert not out, out

def test_form_values(both):
    world = both
    world.add_token("olga", Role.PRIVACY_OFFICER, Role.OPERATOR, Role.STEWARD)
    asked = world.api("ada").post("/v1/permits", json=TERMS).json()["id"]
    olga = Person(world, "olga")
    tok = fields_of(olga.get(f"/admin/proposals/{asked}"))
    out = {}
    from urllib.parse import quote
    for text in ("%00", "%ED%A0%80", "%FF", "%E2%80%AE", "x"*600, ""):
        for url, names in ((f"/admin/proposals/{asked}/messages", ["text"]), (f"/admin/proposals/{asked}/confirm", ["reason", "seen", "outcome"]), (f"/admin/proposals/{asked}/reject", ["reason", "seen"]), ("/admin/people/ada/name", ["display_name", "email"]), ("/admin/tokens/new", ["name", "roles", "days", "once", "read_only"]), ("/admin/proposals/population", ["name", "reason", "adjacency", "accountant", "notion", "epsilon"])):
            bodytext = "form_token=" + tok["form_token"][0] + "".join(f"&{n}={text}" for n in names)
            r = olga._request("POST", url, content=bodytext.encode(), headers={"Origin": olga.origin, "Sec-Fetch-Site": "same-origin", "content-type": "application/x-www-form-urlencoded"})
            if r.status_code >= 500: out[(url, text[:10])] = r.status_code
    assert not out, out
