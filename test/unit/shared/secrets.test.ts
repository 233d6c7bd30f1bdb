import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { messageOf, SubagentError } from "../../../src/shared/errors.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import {
  keepSecret,
  keepSecretsOf,
  keepSecretsOfArguments,
  keepSecretsOfEnvironment,
  keepUrlPassword,
  secretFilter,
  withoutSecrets,
  withoutSecretsIn,
} from "../../../src/shared/secrets.ts";

const KEY = "sk+live/7f3a==9b1c d";
keepSecret(KEY);

test.each([
  ["as it is", KEY],
  ["in JSON", JSON.stringify({ key: KEY })],
  ["in a URL", `https://x/?key=${encodeURIComponent(KEY)}`],
  ["as base64", Buffer.from(KEY).toString("base64")],
  ["as base64 for URLs", Buffer.from(KEY).toString("base64url")],
  ["in JSON within JSON", JSON.stringify(JSON.stringify({ key: KEY }))],
  ["in JSON that escapes slashes", JSON.stringify({ key: KEY }).replaceAll("/", "\\/")],
  ["in a URL with small letters", encodeURIComponent(KEY).toLowerCase()],
  ["in a URL twice", encodeURIComponent(encodeURIComponent(KEY))],
  ["in a form", new URLSearchParams({ key: KEY }).toString()],
  ["as the password of a URL", Object.assign(new URL("redis://h"), { password: KEY }).href],
  ["in hexadecimal digits", Buffer.from(KEY).toString("hex")],
  ["in large hexadecimal digits", Buffer.from(KEY).toString("hex").toUpperCase()],
  [
    "in hexadecimal digits with colons",
    Buffer.from(KEY)
      .toString("hex")
      .replace(/(..)(?=.)/g, "$1:"),
  ],
  [
    "in groups of hexadecimal digits",
    Buffer.from(KEY)
      .toString("hex")
      .replace(/(....)(?=.)/g, "$1 "),
  ],
  [
    "as base64 in lines",
    Buffer.from(`user:${KEY}`)
      .toString("base64")
      .replace(/(.{10})/g, "$1\n"),
  ],
  [
    "as base64 in lines that are set in",
    Buffer.from(KEY)
      .toString("base64")
      .replace(/(.{20})/g, "$1\n    "),
  ],
  [
    "as hexadecimal digits far apart",
    Buffer.from(KEY)
      .toString("hex")
      .replace(/(.{10})/g, `$1${" \t\r\n".repeat(2_500)}`),
  ],
  [
    "as base64 in lines in JSON",
    JSON.stringify(
      Buffer.from(KEY)
        .toString("base64")
        .replace(/(.{7})/g, "$1\r\n"),
    ),
  ],
])("a secret is masked %s", (_, text) => {
  const masked = withoutSecrets(`before ${text} after`);
  expect(masked).toContain("[redacted]");
  expect(masked).toMatch(/^before .* after$/s);
  expect(masked).not.toMatch(/7f3a|37663361|N2YzY/i);
});

test("of the environment the secrets of other programs are kept, too, and no words, paths or short values", () => {
  const env = {
    GITHUB_TOKEN: "ghp_Zx81nQ42kLm90pRt",
    AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCY",
    KEY_ENVIRONMENT: "production-environment",
    SSH_AUTH_SOCK: "/tmp/ssh-abcdef123456/agent.1",
    DATABASE_URL: "postgres://app:p%40ss%2Fw0rd-77@db/x",
    REDIS_URL: "redis://:s/l@sh-and-@t@h:6379",
    HOME_PAGE: "https://example.com/0123456789abcdef",
  };
  keepSecretsOfEnvironment(env);
  const shown = Object.values(env).map(withoutSecrets);
  expect(shown).toEqual([
    ...["[redacted]", "[redacted]", "production-environment", "/tmp/ssh-abcdef123456/agent.1"],
    ...["postgres://app:[redacted]@db/x", "redis://:[redacted]@h:6379"],
    "https://example.com/0123456789abcdef",
  ]);
  expect(withoutSecrets("login with p@ss/w0rd-77")).toBe("login with [redacted]");
});

test("of a program's arguments and of addresses the secrets are kept", () => {
  keepSecretsOfArguments(["--api-key=k-11223344", "--token", "t-55667788", "--name", "ordinary-value"]);
  keepUrlPassword("https://mcp.example/sse?api_key=q-99001122&page=ordinary-page");
  expect(withoutSecrets("k-11223344 t-55667788 q-99001122 ordinary-value ordinary-page")).toBe(
    "[redacted] [redacted] [redacted] ordinary-value ordinary-page",
  );
});

test("a secret is masked wherever it begins within base64 text", () => {
  const around = fc.string({ unit: "grapheme-ascii", maxLength: 20 });
  fc.assert(
    fc.property(around, around, (before, after) => {
      const encoded = Buffer.from(`${before}${KEY}${after}`).toString("base64");
      expect(withoutSecrets(encoded)).toContain("[redacted]");
    }),
    {
      examples: [
        ["", ""],
        ["u:", ""],
        ["ab", "c"],
      ],
    },
  );
});

test.each([
  ["--header and a header", ["--header", "Authorization: Bearer a7-header-0011"], "a7-header-0011"],
  ["one header argument", ["--header=X-Api-Key: a7-header-0022"], "a7-header-0022"],
  ["-H and a header behind it", ["-HX-Api-Key:a7-header-0033"], "a7-header-0033"],
  ["-e and a variable", ["run", "-e", "GITHUB_TOKEN=ghp_a7variable44"], "ghp_a7variable44"],
  ["--env=", ["--env=GITHUB_TOKEN=ghp_a7variable55"], "ghp_a7variable55"],
  ["a variable in front of a program", ["DB_PASSWORD=a7-pass-0066", "serve"], "a7-pass-0066"],
])("of a program's arguments a secret is kept behind a name: %s", (_, args, secret) => {
  keepSecretsOfArguments(args);
  expect(withoutSecrets(`it is ${secret}.`)).toBe("it is [redacted].");
});

test("of arguments with names nothing ordinary is kept", () => {
  const args = [
    "-e",
    "AUTH_MODE=permissive-mode",
    "--header",
    "Accept: application/json+x",
    "key-file: /srv/a7/x.pub",
    "-v",
    "secrets:/run/a7-secrets",
    "-c",
    "A7_TOKEN=a7-shell-7788 exec serve stdio --a7-read-only",
  ];
  keepSecretsOfArguments(args);
  expect(withoutSecrets("a7-shell-7788")).toBe("[redacted]");
  const text = "permissive-mode application/json+x /srv/a7/x.pub /run/a7-secrets --a7-read-only";
  expect(withoutSecrets(text)).toBe(text);
});

test("a value that was read with its line's end is masked without it, too, and a word stays a word", () => {
  keepSecret("b8-given-778899\n");
  keepSecretsOf({
    MY_TOKEN: "b8-variable-1122\r\n",
    Authorization: "Bearer b8-header-3344\n",
    "X-Auth": "optional\n",
  });
  keepSecretsOfEnvironment({ SHOP_TOKEN: "b8Environment0055667\n" });
  keepSecretsOfArguments(["--api-key=b8-argument-7788\n", "-e", "TOKEN=b8-argument-9900\n"]);
  const text =
    "b8-given-778899 b8-variable-1122 b8-header-3344 b8Environment0055667 b8-argument-7788 b8-argument-9900";
  expect(withoutSecrets(text)).toBe(text.replace(/\S+/g, "[redacted]"));
  expect(withoutSecrets("an optional word")).toBe("an optional word");
});

describe("a secret with signs that other programs escape is masked", () => {
  const value = `c9&<k>+"y'é/z\`\\77`;
  keepSecret(value);
  const code = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const large = (text: string) => text.replace(/(?<=\\u)[0-9a-f]{4}/g, (digits) => digits.toUpperCase());
  const plain = JSON.stringify(value).slice(1, -1);
  const net = plain.replace('\\"', '"').replace(/["&'+<>`é]/g, code);
  const go = plain.replace(/[&<>]/g, code);
  test.each([
    ["as Go spells it", go],
    ["as Go spells it, with large digits", large(go)],
    ["as .NET spells it", large(net)],
    ["as .NET spells it, with small digits", net],
    ["as PHP spells it", large(net).replace("/", "\\/")],
    ["as Go spells it, in JSON", JSON.stringify(go)],
    ["in a URL twice, with small letters", encodeURIComponent(encodeURIComponent(value).toLowerCase())],
    ["in a URL twice", encodeURIComponent(encodeURIComponent(value))],
  ])("%s", (_, text) => {
    expect(withoutSecrets(`before ${text} after`)).toMatch(/^before "?\[redacted\]"? after$/);
  });
});

test("a text without the beginning of a secret is read once, and searched for no spelling", async () => {
  vi.resetModules();
  const own = await import("../../../src/shared/secrets.ts");
  for (let n = 0; n < 50; n++) own.keepSecret(`Zq${n}&<k>+"y'/z\`\\77`);
  const text = "an ordinary text, such as a tool's result is: a+b \\u003c & <c>\n".repeat(1_000);
  const searches = [
    vi.spyOn(String.prototype, "includes"),
    vi.spyOn(String.prototype, "replaceAll"),
    vi.spyOn(String.prototype, "replace"),
  ];
  const shown = own.withoutSecrets(text);
  const calls = searches.map(({ mock }) => mock.calls.length);
  for (const search of searches) search.mockRestore();
  expect(calls).toEqual([0, 0, 0]);
  expect(shown).toBe(text);
});

test("texts without a secret are the same texts, and short values are no secrets", () => {
  const text = "an ordinary text about keys";
  keepSecret("keys");
  expect(withoutSecrets(text)).toBe(text);
});

test("of headers and variables those are secrets whose names say so, the word behind Bearer by itself as well", () => {
  keepSecretsOf({
    Authorization: "Bearer tok-112233445566",
    Accept: "application/json",
    MY_TOKEN: "abcdefgh12345",
  });
  expect(withoutSecrets("tok-112233445566, application/json, abcdefgh12345")).toBe(
    "[redacted], application/json, [redacted]",
  );
});

test("what only says something about a secret is none: a model may write such words, paths and addresses", () => {
  const settings = {
    "X-Auth": "standard",
    AUTH_TYPE: "client_credentials",
    GIT_AUTHOR_NAME: "Release Manager",
    OAUTH_TOKEN_URL: "https://auth2.example.com/oauth2/token",
    tokenEndpoint: "https://auth3.example.com/oauth3/token",
    SSH_KEY_FILE: "/srv/project/deploy.pub",
    MAX_TOKENS_LIMIT: "100000000",
    AUTH_HEADER_NAME: "X-Shop-Login-1",
  };
  keepSecretsOf(settings);
  keepSecretsOfEnvironment(settings);
  keepSecretsOfArguments(["--auth-mode", "readonly", "--key-file=keys/deploy1.pub", "--token", "--verbose"]);
  const text = [...Object.values(settings), "readonly keys/deploy1.pub --verbose"].join("\n");
  expect(withoutSecrets(text)).toBe(text);
});

test("a name that leaves no doubt makes a secret of a word, and long words are secrets behind any such name", () => {
  keepSecretsOf({ DB_PASSWORD: "marigolds", "X-Auth": "marigoldsinthegarden" });
  expect(withoutSecrets("marigolds, marigoldsinthegarden")).toBe("[redacted], [redacted]");
});

test("what is secret within a value is kept by itself: the password of a login, a cookie's value, an address's password", () => {
  keepSecretsOf({
    Authorization: `Basic ${Buffer.from("shop:pw-11aa22bb").toString("base64")}`,
    Cookie: "session=s-33cc44dd; theme=dark",
    DATABASE_URL: "postgres://shop:pw-55ee66ff@db/shop",
  });
  expect(withoutSecrets("pw-11aa22bb s-33cc44dd pw-55ee66ff theme=dark")).toBe(
    "[redacted] [redacted] [redacted] theme=dark",
  );
});

test("errors and their causes hold neither secrets nor the arguments of a command", () => {
  const cause = Object.assign(new TypeError(`WRONGPASS ${KEY}`), { command: { name: "auth", args: [KEY] } });
  const error = new SubagentError("redis_unavailable", `No Redis with ${KEY}.`, {}, cause);
  expect(error.message).toBe("No Redis with [redacted].");
  expect(messageOf(new TypeError(KEY))).toBe("[redacted]");
  expect(error.cause).toMatchObject({ message: "WRONGPASS [redacted]" });
  expect(error.cause).not.toHaveProperty("command");
  expect(String(error.cause instanceof Error && error.cause.stack)).not.toContain("7f3a");
});

test("a log line holds none", () => {
  const lines: string[] = [];
  createLogger({ destination: { write: (line) => void lines.push(line) } }).info(
    { url: `redis://:${KEY}@h` },
    KEY,
  );
  expect(lines.join("")).not.toContain("7f3a");
});

test("a secret that comes in pieces is masked wherever it is cut, and nothing else is lost or held back for good", () => {
  const whole = `before ${KEY}${KEY} ${Buffer.from(`u:${KEY}`).toString("base64")} sk+live/ after sk+l`;
  const expected = withoutSecrets(whole);
  expect(expected).not.toContain("7f3a");
  const points = [...whole];
  const inPieces = (lengths: readonly number[]) => {
    const filter = secretFilter();
    let [shown, at] = ["", 0];
    for (const length of lengths) {
      shown += filter.push(points.slice(at, at + length).join(""));
      at += length;
    }
    return shown + filter.push(points.slice(at).join("")) + filter.end();
  };
  for (let cut = 0; cut <= points.length; cut++) expect(inPieces([cut]), `cut at ${cut}`).toBe(expected);
  expect(inPieces(points.map(() => 1))).toBe(expected);
  fc.assert(
    fc.property(fc.array(fc.nat(12)), (lengths) => {
      expect(inPieces(lengths)).toBe(expected);
    }),
  );
});

test("a shorter secret does not give away the rest of a longer one that begins with it", () => {
  keepSecret("shortkey-1");
  keepSecret("shortkey-1-and-more");
  const filter = secretFilter();
  const shown = filter.push("is shortkey-1") + filter.push("-and-more.") + filter.end();
  expect(shown).toBe("is [redacted].");
});

test("text without the beginning of a secret is passed on at once", () => {
  expect(secretFilter().push("an ordinary word \u2603")).toBe("an ordinary word \u2603");
});

test("the details of an error hold no secret at any depth, and are the same object where there is none", () => {
  const { details } = new SubagentError("invalid_input", "No.", {
    issues: [{ field: KEY, problem: `not ${KEY}` }],
    count: 3,
  });
  expect(JSON.stringify(details)).toBe(
    '{"issues":[{"field":"[redacted]","problem":"not [redacted]"}],"count":3}',
  );
  const clean = { agents: ["a"] };
  expect(new SubagentError("invalid_input", "No.", clean).details).toBe(clean);
});

describe("whatever stands before and behind it a secret is found", () => {
  // From the second row on every text is searched.
  test.for([
    [
      "with breaks and escapes in it",
      ["nrn\nk::r x9", "rest of\nit", "a : b c d e", "\u00e9t\u00e9-caf\u00e9-na\u00efve"],
    ],
    ["with few letters in it", ["x:::::::\\", "r: :: :: 1"]],
  ] as const)("%s", ([, odd]) => {
    const unit = fc.constantFrom("\\", "n", "r", ":", " ", "\n", "e", "x", "\u00e9");
    const around = fc.string({ unit, maxLength: 6 });
    for (const value of odd) {
      keepSecret(value);
      const bytes = Buffer.from(value);
      for (const secret of [value, JSON.stringify(value).slice(1, -1), bytes.toString("hex")])
        fc.assert(
          fc.property(around, around, (before, after) => {
            expect(withoutSecrets(before + secret + after)).toContain("[redacted]");
          }),
          { examples: [["\\", ""]] },
        );
    }
  });
});

test("names of fields are masked as well, and what lies too deep is masked as a whole", () => {
  const deep = (levels: number): object => (levels === 0 ? { key: "of nobody" } : { in: deep(levels - 1) });
  expect(withoutSecretsIn({ [KEY]: { [KEY]: 1 } })).toEqual({ "[redacted]": { "[redacted]": 1 } });
  expect(JSON.stringify(withoutSecretsIn({ at: deep(20) }, 5))).toBe(
    '{"at":{"in":{"in":{"in":{"in":"[redacted]"}}}}}',
  );
  const clean = { at: deep(20) };
  expect(withoutSecretsIn(clean, 100)).toBe(clean);
});

test("what lies too deep is masked also where nothing above it looks like a secret", async () => {
  // Of its own: beginnings of other tests' secrets stand in ordinary words.
  vi.resetModules();
  const own = await import("../../../src/shared/secrets.ts");
  const fields = { in: { in: { in: "x" } } };
  expect(own.withoutSecretsIn(fields, 2)).toBe(fields);
  own.keepSecret("q7Z-2kW-9pL-4vT");
  expect(own.withoutSecretsIn(fields, 2)).toEqual({ in: { in: "[redacted]" } });
  expect(own.withoutSecretsIn(fields, 3)).toBe(fields);
});

test("lists lie as deep as objects do, however many stand in one another", () => {
  const nested = (levels: number): unknown => {
    let value: unknown = "x";
    for (let i = 0; i < levels; i++) value = [value];
    return value;
  };
  expect(withoutSecretsIn({ at: nested(200_000) }, 4)).toEqual({ at: [[["[redacted]"]]] });
});
