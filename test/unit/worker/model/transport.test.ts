import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { createTransport, type TransportOptions } from "../../../../src/worker/model/transport.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { until } from "../../../helpers/until.ts";
import { startProvider } from "./scripted-provider.ts";

function open(options: Partial<TransportOptions> = {}) {
  const transport = createTransport({ clock: systemClock, ...options });
  closeAtEnd(() => transport.close());
  return transport;
}

const post = (signal?: AbortSignal): RequestInit => ({ method: "post", body: '{"a":"ü"}', signal });

describe("a request", () => {
  test("carries method, path, query, headers and body, and brings status, headers and body back", async () => {
    const provider = await startProvider((response) => {
      response.writeHead(418, { "x-one": "1", "set-cookie": ["a=1", "b=2"] }).end("short and stout");
    });
    const headers = new Headers({ "x-sent": "yes" });
    const response = await open().fetch(`${provider.baseUrl}/v1/x?y=z`, { ...post(), headers });
    expect(response).toBeInstanceOf(Response);
    expect([response.status, response.ok, response.headers.get("x-one")]).toEqual([418, false, "1"]);
    expect(response.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect(await response.text()).toBe("short and stout");
    expect(provider.received).toMatchObject([
      { url: "/v1/x?y=z", headers: { "x-sent": "yes", "content-length": "10" }, text: '{"a":"ü"}' },
    ]);
  });

  test("without a body in the response resolves too", async () => {
    const provider = await startProvider((response) => response.writeHead(204).end());
    const response = await open().fetch(provider.baseUrl, post());
    expect(response.status).toBe(204);
    expect(await response.text()).toBe("");
  });

  test("after close fails; close is idempotent", async () => {
    const provider = await startProvider((response) => response.end("x"));
    const transport = open();
    await Promise.all([transport.close(), transport.close()]);
    await expect(transport.fetch(provider.baseUrl, post())).rejects.toThrow();
    expect(provider.connections).toBe(0);
  });

  test("that may not begin any more when its connection is there is never sent", async () => {
    const held: ServerResponse[] = [];
    const provider = await startProvider((response) => held.push(response));
    const transport = open({ connections: 1 });
    const first = transport.fetch(provider.baseUrl, post());
    await until(() => held.length === 1);
    let live = true;
    const second = transport.fetch(provider.baseUrl, { ...post(), mayBegin: () => live });
    const refused = expect(second).rejects.toMatchObject({ name: "AbortError" });
    live = false;
    held[0]?.end("first");
    expect(await (await first).text()).toBe("first");
    await refused;
    const third = transport.fetch(provider.baseUrl, { ...post(), mayBegin: () => true });
    await until(() => held.length === 2);
    held[1]?.end("third");
    expect(await (await third).text()).toBe("third");
    expect(provider.received).toHaveLength(2);
  });

  test("that waits for a free connection is aborted at once and never sent", async () => {
    const held: ServerResponse[] = [];
    const provider = await startProvider((response) => held.push(response));
    const transport = open({ connections: 1 });
    const first = transport.fetch(provider.baseUrl, post());
    await until(() => held.length === 1);
    const abort = new AbortController();
    const second = transport.fetch(provider.baseUrl, post(abort.signal));
    abort.abort();
    await expect(second).rejects.toMatchObject({ name: "AbortError" });
    held[0]?.end("first");
    expect(await (await first).text()).toBe("first");
    const third = transport.fetch(provider.baseUrl, post());
    await until(() => held.length === 2);
    held[1]?.end("third");
    expect(await (await third).text()).toBe("third");
    expect(provider.received).toHaveLength(2);
  });

  test("whose signal is aborted already opens no connection", async () => {
    const provider = await startProvider((response) => response.end("x"));
    await expect(open().fetch(provider.baseUrl, post(AbortSignal.abort()))).rejects.toMatchObject({
      name: "AbortError",
    });
    expect(provider.connections).toBe(0);
  });
});

describe("a response body", () => {
  test("errors with the reason when aborted and when its reader cancels gives the socket up", async () => {
    const provider = await startProvider((response) => response.writeHead(200).write("part"));
    const abort = new AbortController();
    const transport = open();
    const aborted = await transport.fetch(provider.baseUrl, post(abort.signal));
    const text = aborted.text();
    const reason = new RangeError("because");
    abort.abort(reason);
    await expect(text).rejects.toBe(reason);
    const cancelled = await transport.fetch(provider.baseUrl, post());
    await cancelled.body?.cancel();
    await until(() => provider.sockets.size === 0);
  });

  test("larger than allowed errors instead of filling the memory", async () => {
    const provider = await startProvider((response) => response.end("x".repeat(5_000)));
    const response = await open({ maxResponseBytes: 1_000 }).fetch(provider.baseUrl, post());
    await expect(response.text()).rejects.toMatchObject({ code: "UND_ERR_RES_EXCEEDED_MAX_SIZE" });
  });

  test("is read from the socket only as fast as it is taken, and a slow reader is no stall", async () => {
    const total = 64 * 1024 * 1024;
    let sent = 0;
    const server = createServer((_, response) => {
      response.writeHead(200);
      const chunk = Buffer.alloc(64 * 1024, "x");
      const push = (): void => {
        while (sent < total) {
          sent += chunk.length;
          if (!response.write(chunk)) return void response.once("drain", push);
        }
        response.end();
      };
      push();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closeAtEnd(() => new Promise<void>((resolve) => server.close(() => resolve())));
    const { port } = server.address() as AddressInfo;
    // Longer than a busy machine lets a process stand still: that would be a stall like any other.
    const idleTimeoutMs = 400;
    const transport = open({ idleTimeoutMs, maxResponseBytes: 2 * total });
    const response = await transport.fetch(`http://127.0.0.1:${port}/`, post());
    let seen = { sent: 0, atMs: performance.now() };
    const threeIdleTimeoutsWithoutProgress = () => {
      if (sent !== seen.sent) seen = { sent, atMs: performance.now() };
      return sent > 0 && performance.now() - seen.atMs > 3 * idleTimeoutMs;
    };
    await until(threeIdleTimeoutsWithoutProgress);
    expect(sent).toBeLessThan(total / 2);
    expect((await response.arrayBuffer()).byteLength).toBe(total);
    await transport.close();
  });
});
