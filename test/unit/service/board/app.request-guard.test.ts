import { describe, expect, test } from "vitest";
import { allowedHosts, isLoopback, requestRefusal } from "../../../../src/service/board/app.ts";

const HOST = "127.0.0.1:3000";
const PATH = "/admin/queues";

describe("an address", () => {
  test.for(["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.10", "::1", "[::1]"])(
    "%s is loopback",
    (host) => {
      expect(isLoopback(host)).toBe(true);
    },
  );

  test.for(["0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example", ""])(
    "%j is not loopback",
    (host) => {
      expect(isLoopback(host)).toBe(false);
    },
  );
});

describe("a server on loopback", () => {
  const hosts = allowedHosts("127.0.0.1");

  test.for(["127.0.0.1:3000", "localhost:3000", "localhost", "[::1]:3000", "LocalHost:1"])(
    "answers the host %s",
    (host) => {
      expect(requestRefusal({ host }, hosts, PATH)).toBeUndefined();
    },
  );

  test.for([
    "evil.example",
    "evil.example:3000",
    "localhost.evil.example",
    "192.168.1.9:3000",
    "me@localhost",
    "localhost:3000:1",
    "local host",
    "",
  ])("refuses the host %j, as a rebound name would send it", (host) => {
    expect(requestRefusal({ host }, hosts, PATH)).toMatch(/Host|--host-name/);
  });

  test("refuses a request without a host", () => {
    expect(requestRefusal({}, hosts, PATH)).toMatch(/Host/);
  });

  test("answers names that the operator gave it", () => {
    expect(
      requestRefusal({ host: "board.internal:80" }, allowedHosts("127.0.0.1", ["board.internal"]), PATH),
    ).toBeUndefined();
  });
});

describe("a server open to the network", () => {
  test("answers any name when none is given", () => {
    expect(requestRefusal({ host: "anything.example" }, allowedHosts("0.0.0.0"), PATH)).toBeUndefined();
  });

  test("answers only the given and loopback names otherwise, in capitals or not", () => {
    const hosts = allowedHosts("0.0.0.0", ["Board.Internal"]);
    expect(requestRefusal({ host: "Board.Internal" }, hosts, PATH)).toBeUndefined();
    expect(requestRefusal({ host: HOST }, hosts, PATH)).toBeUndefined();
    expect(requestRefusal({ host: "evil.example" }, hosts, PATH)).toBeDefined();
  });
});

test.for(["/healthz", "/readyz"])("a probe that calls %s by an address is answered", (path) => {
  const hosts = allowedHosts("0.0.0.0", ["board.internal"]);
  for (const host of ["10.1.2.3:8788", "10.1.2.3", "[fd00::1]:8788"])
    expect(requestRefusal({ host }, hosts, path)).toBeUndefined();
  expect(requestRefusal({ host: "evil.example" }, hosts, path)).toMatch(/--host-name/);
  expect(requestRefusal({ host: "10.1.2.3", origin: "http://evil.example" }, hosts, path)).toMatch(/sites/);
  expect(requestRefusal({ host: "10.1.2.3:8788" }, hosts, PATH)).toMatch(/--host-name/);
});

test.for(["board.internal:8788", "https://board.internal", "board internal", ""])(
  "the name %j, which no Host header can have, is refused with what to write",
  (name) => {
    expect(() => allowedHosts("127.0.0.1", ["board.internal", name])).toThrow(
      `${JSON.stringify(name)} is no host name: name the host alone`,
    );
  },
);

describe("a browser", () => {
  const refusal = (headers: Record<string, string>) => requestRefusal({ host: HOST, ...headers }, [], PATH);

  test("may ask from the board's own page, from the address bar, and by following a link", () => {
    expect(refusal({ "sec-fetch-site": "same-origin", origin: `http://${HOST}` })).toBeUndefined();
    expect(refusal({ "sec-fetch-site": "none" })).toBeUndefined();
    const link = {
      "sec-fetch-site": "cross-site",
      "sec-fetch-mode": "navigate",
      "sec-fetch-dest": "document",
    };
    expect(refusal(link)).toBeUndefined();
  });

  test.for<Record<string, string>>([
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image" },
    { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" },
    { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "document" },
    { "sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty" },
    { origin: "https://evil.example" },
    { origin: "http://127.0.0.1:4000" },
    { origin: "null" },
  ])("may not ask from another site: %j", (headers) => {
    expect(refusal(headers)).toMatch(/other sites/);
  });
});
