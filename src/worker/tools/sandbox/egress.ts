/**
 * The network of a sandbox: an HTTP proxy for one command, on a Unix socket that is mounted into the sandbox.
 *
 * `egress-policy.ts` reads the operator's list, `address-range.ts` classifies addresses.
 *
 * 1. A command reaches only hosts and ports of the operator's list, at public addresses or in ranges that the operator
 *    named. Each request is checked by the address that is dialled, so a redirect or a changed DNS answer gains nothing.
 * 2. The command's connections, requests, headers, interim answers, bytes and silence are bounded. Beyond the bound of
 *    requests or bytes the command loses its network; beyond another one only the connection or request ends.
 * 3. The proxy ends with its command: the socket, its directory, and every connection on both sides.
 * 4. Data from a command or a site can at most end its own request: no handler of it throws.
 * 5. A request reaches its site as one: its body has a length or is sent in chunks, whatever its method.
 * 6. A connection of the command has one of the proxy's at a time: a request before the last answer's end is refused.
 */
import { chmod, mkdir, rm } from "node:fs/promises";
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { type Duplex, pipeline } from "node:stream";
import { guardedLookup, isAddress } from "../../../shared/address-range.ts";
import { codeOf, SubagentError } from "../../../shared/errors.ts";
import { clip } from "../../../shared/protocol/text.ts";
import { makeDirectory } from "./directory.ts";
import type { EgressPolicy } from "./egress-policy.ts";
import type { NetworkUse } from "./runner.ts";

/** The proxy of one command. */
export interface Egress {
  /** Host directory that holds nothing but {@link SOCKET_NAME}. */
  readonly directory: string;
  /** Ends every connection; resolves to the network use of the command. */
  close(): Promise<NetworkUse>;
}

/** Name of the socket in its directory. */
export const SOCKET_NAME = "proxy";

/** Paths and address of the proxy inside the sandbox; {@link FORWARDER} connects the address to the socket. */
export const PROXY_INSIDE = {
  host: "127.0.0.1",
  port: 3128,
  directory: "/run/egress",
  node: "/run/egress-node",
};

/** Joins a TCP port to the Unix socket, because programs speak HTTP only to an address; the worker's own node runs it. */
export const FORWARDER = `const net = require("net");
net.createServer({ allowHalfOpen: true }, (a) => {
  const b = net.connect({ path: "${PROXY_INSIDE.directory}/${SOCKET_NAME}", allowHalfOpen: true });
  for (const [x, y] of [[a, b], [b, a]]) { x.pipe(y); x.on("error", () => y.destroy()); x.on("close", () => y.destroy()); }
}).listen(${PROXY_INSIDE.port}, "${PROXY_INSIDE.host}", () => console.log("ready"));`;

/** Limits of one command's network. */
export interface EgressLimits {
  readonly connections: number;
  readonly requests: number;
  /** Bytes of bodies and tunnels in both directions, and of interim answers. */
  readonly bytes: number;
  readonly headersMs: number;
  readonly connectMs: number;
  readonly silenceMs: number;
}

const LIMITS: EgressLimits = {
  connections: 64,
  requests: 2_000,
  bytes: 512 * 1024 * 1024,
  headersMs: 10_000,
  connectMs: 10_000,
  silenceMs: 120_000,
};
const MAX_HEADER_BYTES = 16 * 1024;
const MAX_REFUSED_NAMED = 10;
/** Maximum answers such as `102 Processing` before the final one: each of them ends a silence. */
const MAX_INTERIM_ANSWERS = 16;

/** Opens the proxy of one command. `limits` overrides the defaults: 64 connections, 2,000 requests, 512 MB. */
export async function openEgress(policy: EgressPolicy, limits: Partial<EgressLimits> = {}): Promise<Egress> {
  // The outer directory is only for its owner; the inner one is shown to the sandbox, which runs as another user.
  const outer = await makeDirectory("net");
  const directory = join(outer, "net");
  const socket = join(directory, SOCKET_NAME);
  const traffic = new Traffic(policy, { ...LIMITS, ...limits });
  try {
    await mkdir(directory);
    // Whatever the umask: the mode of mkdir is subject to it.
    await chmod(directory, 0o755);
    await new Promise<void>((resolve, reject) => {
      // It stays: a server that cannot accept a connection has an error, too.
      traffic.server.on("error", reject);
      traffic.server.listen(socket, resolve);
    });
    await chmod(socket, 0o666);
  } catch (cause) {
    await traffic.stop();
    await rm(outer, { recursive: true, force: true });
    throw Buffer.byteLength(socket) > MAX_SOCKET_PATH_BYTES ? tooLong(cause) : cause;
  }
  return {
    directory,
    async close() {
      await traffic.stop();
      await rm(outer, { recursive: true, force: true });
      return traffic.use();
    },
  };
}

/** Longest path of a socket. Some versions of node make one under the beginning of a longer path. */
const MAX_SOCKET_PATH_BYTES = 107;

function tooLong(cause: unknown): SubagentError {
  const sentence =
    "The path of the directory for temporary files is too long for a socket: set TMPDIR to another one.";
  return new SubagentError("setup_failed", sentence, {}, cause);
}

interface Target {
  readonly host: string;
  readonly port: number;
}

/** Makes the error of a refused request, with the HTTP status for the client. */
function refusal(status: number, sentence: string): SubagentError {
  return new SubagentError("invalid_input", sentence, { status });
}

class Traffic {
  readonly server: Server;
  readonly #policy: EgressPolicy;
  readonly #limits: EgressLimits;
  readonly #open = new Set<Duplex>();
  readonly #refused = new Set<string>();
  #requests = 0;
  #bytes = 0;
  /** Connections of the command with a request whose answer has not ended. */
  readonly #asking = new WeakSet<Duplex>();
  #isSpent = false;
  #isStopped = false;

  constructor(policy: EgressPolicy, limits: EgressLimits) {
    this.#policy = policy;
    this.#limits = limits;
    this.server = createServer({
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: limits.headersMs,
      requestTimeout: 0,
      keepAliveTimeout: 5_000,
      connectionsCheckingInterval: Math.min(1_000, limits.headersMs),
    });
    this.server.maxConnections = limits.connections;
    // Node sets it again when a request follows on a connection.
    this.server.timeout = limits.silenceMs;
    this.server.on("connection", (socket: Socket) => {
      this.#keep(socket);
      socket.setTimeout(limits.silenceMs, () => socket.destroy());
    });
    this.server.on("request", (incoming, answer) => this.#pass(incoming, answer));
    this.server.on("connect", (incoming, client, head) => this.#tunnel(incoming, client, head));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const each of this.#open) each.destroy();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  use(): NetworkUse {
    return { requests: this.#requests, bytes: this.#bytes, refused: [...this.#refused] };
  }

  /** Handles CONNECT: passes bytes in both directions, unread. */
  #tunnel(incoming: IncomingMessage, client: Duplex, head: Buffer): void {
    const refuse = (error: unknown, to?: Target): void => {
      const { status, message } = this.#errorAnswerOf(error, to);
      client.end(
        `HTTP/1.1 ${status} Refused\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n${message}\n`,
      );
    };
    guarded(refuse, () => {
      const target = this.#admit(incoming, `http://${incoming.url ?? ""}`, true);
      const server = this.#dial(target);
      const failed = (error: unknown): void => refuse(error, target);
      server.once("error", failed);
      const carry = guarded(failed, () => {
        // From here on the bytes are the site's own: no answer of the proxy may stand among them.
        server.off("error", failed);
        client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
        // Bytes that came with the request are metered and carried as those behind it.
        if (head.length > 0) client.unshift(head);
        this.#meter(client);
        this.#meter(server);
        pipeline(client, server, () => undefined);
        pipeline(server, client, () => undefined);
      });
      server.once("connect", carry);
    })();
  }

  /** Handles a plain request with an absolute URL. */
  #pass(incoming: IncomingMessage, answer: ServerResponse): void {
    let target: Target | undefined;
    const refuse = (error: unknown): void => {
      const { status, message } = this.#errorAnswerOf(error, target);
      if (answer.headersSent) answer.destroy();
      else
        answer.writeHead(status, { "content-type": "text/plain", connection: "close" }).end(`${message}\n`);
    };
    const ask = guarded(refuse, () => {
      const url = incoming.url ?? "";
      target = this.#admit(incoming, url, false);
      this.#asking.add(incoming.socket);
      answer.once("close", () => this.#asking.delete(incoming.socket));
      const { host, pathname, search } = new URL(url);
      const { method, headers } = incoming;
      const outgoing = request({
        createConnection: () => this.#dial(target ?? { host: "", port: 0 }),
        method,
        path: pathname + search,
        headers: { ...endToEnd(headers), ...framing(headers), host },
        maxHeaderSize: MAX_HEADER_BYTES,
      });
      outgoing.once("error", refuse);
      // A request may fail twice; the second error needs no answer.
      outgoing.on("error", () => undefined);
      // If a site switches to another protocol, the request closes without an error.
      outgoing.once("close", () => {
        if (!answer.headersSent) refuse(undefined);
      });
      answer.once("close", () => outgoing.destroy());
      const passOn = guarded(refuse, (response: IncomingMessage) => {
        answer.writeHead(response.statusCode ?? 502, endToEnd(response.headers));
        this.#meter(response);
        pipeline(response, answer, () => undefined);
      });
      outgoing.once("response", passOn);
      this.#boundInterim(outgoing);
      this.#meter(incoming);
      pipeline(incoming, outgoing, () => undefined);
    });
    ask();
  }

  /** Returns the host and port of a request. Throws a refusal if they are not allowed. */
  #admit({ socket }: IncomingMessage, url: string, isTunnel: boolean): Target {
    this.#requests += 1;
    if (this.#isSpent || this.#requests > this.#limits.requests)
      throw refusal(429, "This command has used up its network.");
    if (this.#asking.has(socket))
      throw refusal(429, "Ask for one thing at a time on a connection: its last answer has not ended.");
    const { protocol, hostname, port, username, pathname } = parseUrl(url);
    if (protocol !== "http:" || hostname === "" || username !== "" || (isTunnel && pathname !== "/"))
      throw refusal(400, "This is a proxy: ask it for CONNECT host:port or for http://host/path.");
    const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
    const target = { host, port: Number(port || 80) };
    if (!this.#policy.isListed(target.host, target.port)) throw this.#refuse(target, "is not on the list");
    if (isAddress(host) && !this.#policy.mayReach(host)) throw this.#refuse(target, "is no public address");
    return target;
  }

  #refuse({ host, port }: Target, why: string): SubagentError {
    const name = `${clip(host, 100)}:${port}`;
    if (this.#refused.size < MAX_REFUSED_NAMED) this.#refused.add(name);
    const list = clip(this.#policy.hosts.join(", "), 500);
    return refusal(403, `${name} ${why} of what commands may reach: ${list}.`);
  }

  /** Connects to the address that was checked. */
  #dial(target: Target): Socket {
    const { mayReach, resolve } = this.#policy;
    const refused = (): SubagentError => this.#refuse(target, "has an address that is none");
    const socket = connect({ ...target, lookup: guardedLookup(mayReach, refused, resolve) });
    this.#keep(socket);
    const late = (): unknown => socket.destroy(refusal(504, `${target.host} does not answer.`));
    socket.setTimeout(this.#limits.connectMs, late);
    socket.once("connect", () => socket.setTimeout(this.#limits.silenceMs));
    return socket;
  }

  #errorAnswerOf(error: unknown, target?: Target): { status: number; message: string } {
    if (error instanceof SubagentError)
      return { status: Number(error.details.status), message: error.message };
    const code = codeOf(error) ?? "no answer";
    return { status: 502, message: `${target?.host ?? "The host"} cannot be reached (${code}).` };
  }

  #keep(stream: Duplex): void {
    if (this.#isStopped) stream.destroy();
    this.#open.add(stream);
    stream.on("error", () => undefined);
    stream.once("close", () => this.#open.delete(stream));
  }

  /** Bounds interim answers; none is passed on. */
  #boundInterim(outgoing: ClientRequest): void {
    let answers = 0;
    outgoing.on("information", ({ rawHeaders }) => {
      answers += 1;
      this.#count(rawHeaders.join("").length);
      if (answers > MAX_INTERIM_ANSWERS)
        outgoing.destroy(refusal(502, `The host sent more than ${MAX_INTERIM_ANSWERS} interim answers.`));
    });
  }

  #meter(stream: Duplex | IncomingMessage): void {
    stream.on("data", (bytes: Buffer) => this.#count(bytes.length));
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= this.#limits.bytes) return;
    this.#isSpent = true;
    for (const each of this.#open) each.destroy();
  }
}

/** Wraps a handler of received data. Node reads values that it cannot write, e.g. status 42: only one request fails. */
function guarded<Sent extends unknown[]>(
  refuse: (error: unknown) => void,
  handle: (...sent: Sent) => void,
): (...sent: Sent) => void {
  return (...sent) => {
    try {
      handle(...sent);
    } catch (error) {
      refuse(error);
    }
  };
}

function parseUrl(url: string): URL {
  try {
    return new URL(url);
  } catch {
    throw refusal(400, "The address of this request cannot be read.");
  }
}

const HOP_BY_HOP = new Set(
  "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split(
    " ",
  ),
);

/**
 * Returns the header that frames the body, also if the command names it as one of this connection only: node frames no body by
 * itself where the method rarely has one.
 *
 * @throws {SubagentError} if the body has another coding than chunks, which node's parser leaves in place.
 */
function framing(headers: NodeJS.Dict<string | string[]>): NodeJS.Dict<string | string[]> {
  const { "transfer-encoding": coding, "content-length": length } = headers;
  if (coding === undefined) return length === undefined ? {} : { "content-length": length };
  if (String(coding).toLowerCase() !== "chunked")
    throw refusal(501, "This proxy knows no transfer coding but chunked.");
  return { "transfer-encoding": "chunked" };
}

/** Returns the headers that are not for the proxy itself. */
function endToEnd(headers: NodeJS.Dict<string | string[]>): NodeJS.Dict<string | string[]> {
  const named = new Set(
    String(headers.connection ?? "")
      .toLowerCase()
      .split(/\s*,\s*/),
  );
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name) && !named.has(name)),
  );
}
