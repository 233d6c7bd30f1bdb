import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { closeAtEnd } from "./cleanup.ts";
import { type Fate, openCrashLine } from "./crash-line.ts";
import { startPrivateRedis } from "./redis.ts";
import { until } from "./until.ts";

test.for<[Fate, string | null]>([
  ["before", null],
  ["after", "1"],
])(
  "a line that dies %s a command lets nothing through, not even to a client that comes back",
  async ([fate, kept]) => {
    const server = await startPrivateRedis();
    let asked = 0;
    const line = await openCrashLine(server.port, ([, key]) =>
      key === "last" && !asked++ ? fate : "passes",
    );
    const client = new Redis(line.url, { retryStrategy: () => 1 });
    client.on("error", () => {});
    const direct = new Redis(server.url);
    for (const redis of [client, direct]) closeAtEnd(() => redis.disconnect());
    let answers = 0;
    const count = () => {
      answers += 1;
    };
    expect(await client.set("first", 1)).toBe("OK");
    client.set("last", 1).then(count, () => {});
    await line.dead;
    expect(await direct.get("last")).toBe(kept);

    let returned = 0;
    client.on("connect", () => {
      returned += 1;
    });
    client.disconnect(true);
    await until(() => returned > 0, { what: "the client to come back" });
    client.set("late", 1).then(count, () => {});
    // Somebody who set out later, the same way, has been answered.
    const other = new Redis((await openCrashLine(server.port, () => "passes")).url);
    closeAtEnd(() => other.disconnect());
    for (let round = 0; round < 5; round++) await other.set("other", round);
    expect(await direct.mget("last", "late")).toEqual([kept, null]);
    expect(answers).toBe(0);
  },
);
