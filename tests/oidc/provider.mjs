// An OpenID provider on loopback, whose people sign in with any password. Its port is the one argument.
import Provider from 'oidc-provider';

const GROUPS = { ada: ['researchers'], audra: ['auditors'], olga: ['data-protection'], visitor: [] };
const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code';

// As Entra ID has them: `oid` is the same at each application, of one tenant.
const described = (sub) => ({ groups: GROUPS[sub], name: `Dr ${sub}`, oid: `oid-of-${sub}`, tid: 'a-tenant' });

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'notebooks',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: [DEVICE, 'refresh_token'],
      response_types: [],
      redirect_uris: [],
    },
    {
      client_id: 'dashboard',
      client_secret: 'of-tests-and-nobody-else',
      application_type: 'native', // may come back to any port of this machine
      token_endpoint_auth_method: 'client_secret_basic',
      redirect_uris: ['http://127.0.0.1/admin/sign-in/login/callback'],
      subject_type: process.env.DASHBOARD_SUBJECTS ?? 'public',
    },
  ],
  subjectTypes: ['public', 'pairwise'],
  pairwiseIdentifier: (_, sub, client) => `${client.clientId}-of-${sub}`,
  cookies: { keys: ['a key of tests'] },
  scopes: ['openid', 'offline_access'],
  features: {
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: 'release',
        audience: resource,
        accessTokenFormat: 'jwt',
        accessTokenTTL: Number(process.env.ACCESS_TOKEN_S ?? 600),
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  claims: { openid: ['sub', 'groups', 'name', 'oid', 'tid'] },
  conformIdTokenClaims: false,
  findAccount: (_, sub) =>
    sub in GROUPS
      ? { accountId: sub, claims: () => ({ sub, ...described(sub) }) }
      : undefined,
  extraTokenClaims: (_, token) => described(token.accountId),
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
});

provider.listen(port, '127.0.0.1', () => console.log('listening'));
