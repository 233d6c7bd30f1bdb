import { existsSync } from "node:fs";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type EgressLimits,
  openEgress,
  SOCKET_NAME,
} from "../../../../../src/worker/tools/sandbox/egress.ts";
import { parseEgress } from "../../../../../src/worker/tools/sandbox/egress-policy.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { until } from "../../../../helpers/until.ts";

/** A web server on 127.0.0.1 that says what it was asked. */
async function site(handle?: (incoming: IncomingMessage, answer: ServerResponse) => void) {
  let connections = 0;
  const echo = async (incoming: IncomingMessage, answer: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const { method, url, headers } = incoming;
    answer.end(JSON.stringify({ method, url, headers, body: Buffer.concat(chunks).toString() }));
  };
  const server: Server = createServer((incoming, answer) => void (handle ?? echo)(incoming, answer));
  server.on("connection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  closeAtEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

/** A server that speaks no HTTP of its own: `write` answers the first bytes of each connection. */
async function rawSite(write: (socket: Socket) => void) {
  const server = createTcpServer((socket) => {
    socket.on("error", () => undefined).once("data", () => write(socket));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  closeAtEnd(() => void server.close());
  return (server.address() as AddressInfo).port;
}

interface Answers {
  [host: string]: string | string[];
}

/** A proxy with a name server of its own. `asked` are the names that were asked for. */
async function proxy(
  hosts: string,
  answers: Answers = {},
  ranges = "127.0.0.1",
  limits: Partial<EgressLimits> = {},
) {
  const policy = parseEgress(hosts, ranges);
  if ("problem" in policy) throw new Error(policy.problem);
  const asked: string[] = [];
  const resolve = async (host: string) => {
    asked.push(host);
    const addresses = [answers[host] ?? []].flat();
    if (addresses.length === 0) throw Object.assign(new Error("not found"), { code: "ENOTFOUND" });
    return addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  };
  const egress = await openEgress({ ...policy, resolve }, limits);
  closeAtEnd(async () => void (await egress.close()));
  const socketPath = join(egress.directory, SOCKET_NAME);
  const ask = (
    url: string,
    more: { method?: string; body?: string; headers?: Record<string, string> } = {},
  ) =>
    new Promise<{ status: number; text: string; headers: IncomingMessage["headers"] }>((resolve, reject) => {
      const { body, ...options } = more;
      const asking = request({ socketPath, path: url, ...options }, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        answer.once("end", () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }));
        answer.once("error", reject);
      });
      asking.once("error", reject);
      asking.end(body);
    });
  /** What a raw client gets until the proxy ends the connection, or `enough` is there. */
  const raw = (text: string, enough?: string) =>
    new Promise<string>((resolve) => {
      let got = "";
      const socket: Socket = connect(socketPath, () => socket.write(text));
      closeAtEnd(() => void socket.destroy());
      socket.on("data", (bytes) => {
        got += bytes.toString("latin1");
        if (enough !== undefined && got.includes(enough)) resolve(got);
      });
      socket.on("error", () => resolve(got));
      socket.on("close", () => resolve(got));
    });
  return { egress, asked, ask, raw, socketPath };
}

describe("the way out of the sandbox", () => {
  it("passes requests on to listed hosts, with their own host header and without what is meant for a proxy", async () => {
    const { port } = await site();
    const { ask, egress } = await proxy(`site.test:${port}`, { "site.test": "127.0.0.1" });
    const headers = {
      host: "other.test",
      "proxy-authorization": "Basic x",
      "proxy-connection": "close",
      "x-own": "1",
    };
    const { status, text } = await ask(`http://site.test:${port}/a?b=1`, {
      method: "POST",
      body: "hello",
      headers,
    });
    const said = JSON.parse(text);
    expect(status).toBe(200);
    expect(said).toMatchObject({ method: "POST", url: "/a?b=1", body: "hello" });
    expect(said.headers).toMatchObject({ host: `site.test:${port}`, "x-own": "1" });
    expect(Object.keys(said.headers).filter((name) => name.startsWith("proxy-"))).toEqual([]);
    const use = await egress.close();
    expect(use).toEqual({ requests: 1, bytes: "hello".length + text.length, refused: [] });
  });

  it("makes tunnels to listed hosts, and carries bytes both ways", async () => {
    const server = createTcpServer((socket) => socket.on("error", () => undefined).pipe(socket));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    closeAtEnd(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { socketPath, egress } = await proxy(`site.test:${port}`, { "site.test": "127.0.0.1" });
    const client = connect(socketPath).on("error", () => undefined);
    closeAtEnd(() => void client.destroy());
    let got = "";
    client.setEncoding("latin1").on("data", (part: string) => {
      got += part;
    });
    // The first bytes come with the request, the others behind it.
    client.write(`CONNECT site.test:${port} HTTP/1.1\r\nhost: site.test\r\n\r\nfirst, `);
    await until(() => got.endsWith("first, "));
    client.write("then more");
    await until(() => got.endsWith("more"));
    expect(got).toBe("HTTP/1.1 200 Connection Established\r\n\r\nfirst, then more");
    // Both ways are counted.
    expect((await egress.close()).bytes).toBe(2 * "first, then more".length);
  });

  it("refuses every other host and port, however it is spelled, and asks no name server about it", async () => {
    const { port, connections } = await site();
    const hosts = `site.test:${port},*.wild.test:${port},secure.test`;
    const { ask, raw, asked, egress } = await proxy(hosts, { "site.test": "127.0.0.1" });
    const authorities = [
      ...["other.test", "site.test.other.test", "evilsite.test", "wild.test", "evilwild.test"].map(
        (host) => `${host}:${port}`,
      ),
      ...[`127.0.0.1:${port}`, `[::1]:${port}`, `2130706433:${port}`, `0x7f.1:${port}`, `127.1:${port}`],
      ...["site.test:22", "site.test", "secure.test:22", "secure.test:8443", "site.test:0"],
    ];
    for (const authority of authorities) {
      expect((await ask(`http://${authority}/`)).status, authority).toBe(403);
      expect(await raw(`CONNECT ${authority} HTTP/1.1\r\nhost: site.test\r\n\r\n`), authority).toMatch(
        /^HTTP\/1.1 403 /,
      );
    }
    const odd = [
      `http://site.test@127.0.0.1:${port}/`,
      "/relative",
      `https://site.test:${port}/`,
      "ftp://site.test/",
      "http://",
    ];
    for (const url of odd) expect((await ask(url)).status, url).toBe(400);
    for (const authority of ["", "a b", `x@site.test:${port}`, `site.test:${port}/path`, "site.test:99999"]) {
      expect(await raw(`CONNECT ${authority} HTTP/1.1\r\nhost: site.test\r\n\r\n`), authority).toMatch(
        /^HTTP\/1.1 400 /,
      );
    }
    expect(asked).toEqual([]);
    expect(connections()).toBe(0);
    expect((await egress.close()).refused).toContain(`other.test:${port}`);
  });

  it("dials no private, local, mapped or otherwise special address, unless its range is named", async () => {
    const { port, connections } = await site();
    const special = [
      ...[
        "127.0.0.1",
        "127.9.9.9",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
      ],
      ...[
        "224.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "192.0.0.192",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
      ],
      ...[
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a01:203",
        "2002:7f00:1::",
        "fd00:ec2::254",
        "fe80::1",
      ],
      ...["fec0::1", "ff02::1", "2001:db8::1", "2001::1", "::ffff:0:7f00:1"],
    ];
    for (const address of special) {
      const { ask, raw } = await proxy(`site.test:${port}`, { "site.test": address }, "");
      expect((await ask(`http://site.test:${port}/`)).status, address).toBe(403);
      expect(await raw(`CONNECT site.test:${port} HTTP/1.1\r\n\r\n`), address).toMatch(/^HTTP\/1.1 403 /);
    }
    for (const literal of ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"]) {
      const { ask } = await proxy(`${literal}:${port}`, {}, "");
      expect((await ask(`http://${literal}:${port}/`)).status, literal).toBe(403);
    }
    expect(connections()).toBe(0);
    const { ask } = await proxy(`127.0.0.1:${port}`, {}, "127.0.0.0/8");
    expect((await ask(`http://127.0.0.1:${port}/`)).status).toBe(200);
  });

  it("dials the address that it judged: a name that moves, or has two addresses, gains nothing", async () => {
    const { port, connections } = await site();
    const answers: Answers = { "site.test": "127.0.0.1", "two.test": ["127.0.0.1", "127.0.0.2"] };
    const { ask, asked } = await proxy(`site.test:${port},two.test:${port}`, answers);
    expect((await ask(`http://site.test:${port}/`)).status).toBe(200);
    expect(asked).toEqual(["site.test"]);
    answers["site.test"] = "127.0.0.2";
    expect((await ask(`http://site.test:${port}/`)).status).toBe(403);
    expect((await ask(`http://two.test:${port}/`)).status).toBe(403);
    expect(asked).toEqual(["site.test", "site.test", "two.test"]);
    expect(connections()).toBe(1);
  });

  it("follows no redirect itself, and refuses where it leads", async () => {
    const to = await site();
    const from = await site((_, answer) =>
      answer.writeHead(302, { location: `http://127.0.0.1:${to.port}/` }).end(),
    );
    const { ask } = await proxy(`site.test:${from.port}`, { "site.test": "127.0.0.1" });
    const { status, headers } = await ask(`http://site.test:${from.port}/`);
    expect(status).toBe(302);
    expect((await ask(String(headers.location))).status).toBe(403);
    expect(to.connections()).toBe(0);
  });

  it("says when a host is not known or does not answer", async () => {
    const { ask } = await proxy("none.test:81,closed.test:1", { "closed.test": "127.0.0.1" });
    expect(await ask("http://none.test:81/")).toMatchObject({
      status: 502,
      text: expect.stringContaining("ENOTFOUND"),
    });
    expect(await ask("http://closed.test:1/")).toMatchObject({
      status: 502,
      text: expect.stringContaining("ECONNREFUSED"),
    });
  });

  it("bounds headers on both sides, and clients that are slow to send theirs", async () => {
    const big = "x".repeat(20_000);
    const { port } = await site((_, answer) => answer.writeHead(200, { big }).end());
    const { ask, raw } = await proxy(`site.test:${port}`, { "site.test": "127.0.0.1" }, "127.0.0.1", {
      headersMs: 200,
    });
    expect(await raw(`GET http://site.test:${port}/ HTTP/1.1\r\nhost: x\r\nbig: ${big}\r\n\r\n`)).toMatch(
      /^HTTP\/1.1 431 /,
    );
    expect((await ask(`http://site.test:${port}/`)).status).toBe(502);
    expect(await raw("CONNECT site.test:443 HTTP/1.1\r\nhost: ")).toMatch(/^(HTTP\/1.1 408 |$)/);
  });

  it.for<[string, string]>([
    ["a status of 42", "HTTP/1.1 042 X\r\ncontent-length: 0\r\n\r\n"],
    ["a status of 0", "HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n"],
    ["a header that no server may write", "HTTP/1.1 200 OK\r\nodd: a\x7fb\r\ncontent-length: 0\r\n\r\n"],
    ["another protocol", "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"],
    ["no HTTP", "SSH-2.0-x\r\n"],
  ])("refuses an answer with %s, and goes on", async ([, bytes]) => {
    const port = await rawSite((socket) => void socket.write(bytes));
    const other = await site();
    const { ask } = await proxy(`site.test:${port},site.test:${other.port}`, { "site.test": "127.0.0.1" });
    expect((await ask(`http://site.test:${port}/`)).status).toBe(502);
    expect((await ask(`http://site.test:${other.port}/`)).status).toBe(200);
  });

  it("counts interim answers, and ends a request that gets no other", async () => {
    const interim = `HTTP/1.1 102 Processing\r\nx: ${"y".repeat(1_000)}\r\n\r\n`;
    const port = await rawSite((socket) => void socket.write(interim.repeat(100)));
    const patient = await rawSite(
      (socket) => void socket.write(`${interim.repeat(16)}HTTP/1.1 204 No Content\r\n\r\n`),
    );
    const { ask, egress } = await proxy(`site.test:${port},site.test:${patient}`, {
      "site.test": "127.0.0.1",
    });
    expect((await ask(`http://site.test:${patient}/`)).status).toBe(204);
    expect(await ask(`http://site.test:${port}/`)).toMatchObject({
      status: 502,
      text: expect.stringContaining("more than 16 interim answers"),
    });
    expect((await egress.close()).bytes).toBeGreaterThan(32 * 1_000);
    const poor = await proxy(`site.test:${patient}`, { "site.test": "127.0.0.1" }, "127.0.0.1", {
      bytes: 5_000,
    });
    await expect(poor.ask(`http://site.test:${patient}/`)).rejects.toThrow();
    await expect(poor.ask(`http://site.test:${patient}/`)).resolves.toMatchObject({ status: 429 });
  });

  it("cuts what stays silent, and a command that moves too much, asks too often or holds too many connections", async () => {
    const { port } = await site((incoming, answer) => {
      if (incoming.url === "/silent") return;
      const more = () => {
        while (answer.write("x".repeat(10_000)));
      };
      answer.on("drain", more).on("error", () => undefined);
      more();
    });
    const known = { "site.test": "127.0.0.1" };
    const silent = await proxy(`site.test:${port}`, known, "127.0.0.1", { silenceMs: 200 });
    const end = await silent.ask(`http://site.test:${port}/silent`).then(
      ({ status }) => status,
      () => "cut",
    );
    expect([504, "cut"]).toContain(end);

    const greedy = await proxy(`site.test:${port}`, known, "127.0.0.1", { bytes: 1_000_000 });
    await expect(greedy.ask(`http://site.test:${port}/`)).rejects.toThrow();
    await expect(greedy.ask(`http://site.test:${port}/`)).resolves.toMatchObject({ status: 429 });
    expect((await greedy.egress.close()).bytes).toBeLessThan(2_000_000);

    const busy = await proxy(`site.test:${port}`, known, "127.0.0.1", { requests: 3 });
    const statuses = [];
    for (let n = 0; n < 5; n++) statuses.push((await busy.ask("http://other.test/")).status);
    expect(statuses).toEqual([403, 403, 403, 429, 429]);

    const crowded = await proxy(`site.test:${port}`, known, "127.0.0.1", { connections: 2 });
    const ends = [1, 2, 3, 4].map(() => {
      const socket = connect(crowded.socketPath).on("error", () => undefined);
      closeAtEnd(() => void socket.destroy());
      return socket;
    });
    await until(() => ends.filter((socket) => socket.destroyed).length === 2);
  });

  it("opens one connection to a site for one of its command, however many requests stand on it", async () => {
    const waiting: ServerResponse[] = [];
    const { port, connections } = await site((_, answer) => void waiting.push(answer));
    const { socketPath, ask } = await proxy(`site.test:${port}`, { "site.test": "127.0.0.1" });
    const url = `http://site.test:${port}/`;
    const eager = connect(socketPath).on("error", () => undefined);
    closeAtEnd(() => void eager.destroy());
    let got = "";
    eager.setEncoding("latin1").on("data", (part: string) => {
      got += part;
    });
    eager.write(`GET ${url} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(40));
    await until(() => waiting.length === 1);
    const other = ask(url);
    await until(() => waiting.length === 2);
    for (const answer of waiting) answer.end("said");
    expect((await other).text).toBe("said");
    await until(() => eager.destroyed);
    expect(got.match(/HTTP\/1\.1 \d+/g)?.slice(0, 2)).toEqual(["HTTP/1.1 200", "HTTP/1.1 429"]);
    expect(connections()).toBe(2);
  });

  it.each(["POST", "GET", "DELETE"])(
    "a %s whose body comes in chunks reaches its site as one request",
    async (method) => {
      const asked: string[] = [];
      const { port } = await site(async (incoming, answer) => {
        let body = "";
        for await (const chunk of incoming) body += chunk;
        asked.push(`${incoming.method} ${incoming.url} ${body}`);
        answer.end("taken");
      });
      const { raw } = await proxy(`site.test:${port}`, { "site.test": "127.0.0.1" });
      const body = "POST /second HTTP/1.1\r\nhost: other\r\ncontent-length: 0\r\n\r\n";
      const head = `${method} http://site.test:${port}/first HTTP/1.1\r\nhost: x\r\nconnection: close\r\n`;
      const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
      expect(await raw(`${head}transfer-encoding: chunked\r\n\r\n${chunks}`)).toContain("taken");
      expect(asked).toEqual([`${method} /first ${body}`]);
      expect(await raw(`${head}transfer-encoding: gzip, chunked\r\n\r\n${chunks}`)).toContain("501");
      expect(asked).toHaveLength(1);
    },
  );

  it.each(["POST", "GET", "DELETE"])(
    "a %s whose length is called one of the connection's headers reaches its site as one request",
    async (method) => {
      const { port } = await site();
      const { raw } = await proxy(`site.test:${port}`, { "site.test": "127.0.0.1" });
      const body = "POST /second HTTP/1.1\r\nhost: other\r\n\r\n";
      const head = `${method} http://site.test:${port}/first HTTP/1.1\r\nhost: x\r\nconnection: close, content-length\r\n`;
      const got = await raw(`${head}content-length: ${body.length}\r\n\r\n${body}`);
      expect(got).toContain(JSON.stringify(body));
      expect(got).toContain(`"content-length":"${body.length}"`);
    },
  );

  it("ends with its command: connections on both sides, the socket and its directory", async () => {
    const held: Socket[] = [];
    const server = createTcpServer((socket) => void held.push(socket.on("error", () => undefined)));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    closeAtEnd(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { egress, raw } = await proxy(`127.0.0.1:${port}`);
    const client = raw(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\n\r\n`);
    await until(() => held.length === 1);
    await egress.close();
    expect(await client).toMatch(/^(HTTP\/1.1 200 |$)/);
    await until(() => held.every((socket) => socket.destroyed || socket.readableEnded));
    expect(existsSync(egress.directory)).toBe(false);
  });

  it("reaches a host whose name ends with a dot, as the list names it without", async () => {
    const { port } = await site();
    const { ask } = await proxy(`site.test:${port}`, { "site.test": "127.0.0.1" });
    expect(await ask(`http://site.test.:${port}/`)).toMatchObject({ status: 200 });
    expect(await ask(`http://other.test.:${port}/`)).toMatchObject({ status: 403 });
  });

  it("holds no connection to a site for a client that has left before its answer", async () => {
    const held: Socket[] = [];
    const port = await rawSite((socket) => void held.push(socket));
    const { socketPath } = await proxy(`127.0.0.1:${port}`);
    const client = connect(socketPath).on("error", () => undefined);
    client.write(`GET http://127.0.0.1:${port}/ HTTP/1.1\r\nhost: x\r\n\r\n`);
    await until(() => held.length === 1);
    client.destroy();
    await until(() => held.every((socket) => socket.readableEnded || socket.destroyed));
  });

  it("reads lists of hosts, and says which entry it cannot read", () => {
    const policy = parseEgress("Registry.NPMjs.org, *.github.com ,git.test:8443,[2606:4700::1]");
    if ("problem" in policy) throw new Error(policy.problem);
    expect(policy.isListed("registry.npmjs.org", 443)).toBe(true);
    expect(policy.isListed("registry.npmjs.org", 80)).toBe(true);
    expect(policy.isListed("registry.npmjs.org", 8443)).toBe(false);
    expect(policy.isListed("api.github.com", 443)).toBe(true);
    expect(policy.isListed("github.com", 443)).toBe(false);
    expect(policy.isListed("git.test", 8443)).toBe(true);
    expect(policy.isListed("2606:4700::1", 443)).toBe(true);
    for (const bad of [
      "https://a.test",
      "a b",
      "*",
      "*.",
      "a.test:0",
      "a.test:70000",
      "a/b",
      "[::1",
      "a..b",
      "10",
      "10.1:8080",
      "010.0.0.1",
      "0x7f.0x1",
    ]) {
      expect(parseEgress(bad), bad).toHaveProperty("problem");
    }
    for (const bad of ["10.0.0.0/99", "private", "10/8"])
      expect(parseEgress("a.test", bad), bad).toHaveProperty("problem");
  });
});
