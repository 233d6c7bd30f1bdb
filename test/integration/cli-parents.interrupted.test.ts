/** Guarantee: Ctrl-C ends a command that reads the parents at once: of a large installation it reads for many seconds. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { EXIT } from "../../src/cli/command.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { startHere } from "../helpers/program.ts";
import { placeOn } from "../helpers/program-on-stage.ts";
import { openStage } from "../stage/stage.ts";

/** Runs a command that gets Ctrl-C with its first read that names `key`, which Redis never sees. */
async function interrupted(key: string, ...args: string[]) {
  const stage = await openStage();
  await stage.parent("parent-0").spawn({ name: "explorer" });
  const port = Number(new URL(stage.url).port);
  const sockets: Socket[] = [];
  const server = createServer((client) => {
    const redis = connect(port, "127.0.0.1");
    for (const socket of [client, redis]) sockets.push(socket.on("error", () => {}));
    redis.pipe(client);
    client.on("data", (bytes) => {
      if (bytes.includes(key)) void command.kill("SIGINT");
      else redis.write(bytes);
    });
  });
  closeAtEnd(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { env, ...place } = placeOn(stage);
  const { port: ownPort } = server.address() as AddressInfo;
  const command = startHere(args, { ...place, env: { ...env, REDIS_URL: `redis://127.0.0.1:${ownPort}` } });
  return command.closed;
}

test.for(["ps", "ps --json", "logs", "show explorer", "list", "usage --json"])(
  "Ctrl-C while %s reads ends it as interrupted, without a result",
  async (words) => {
    const { code, stdout } = await interrupted("parent-0", ...words.split(" "));
    expect({ code, stdout }).toEqual({ code: EXIT.interrupted, stdout: [] });
  },
);

test("Ctrl-C is the end of logs --follow, also while it reads", async () => {
  expect(await interrupted("parent-0", "logs", "--follow")).toMatchObject({ code: EXIT.done, stdout: [] });
});

test.for(["list", "usage --json"])(
  "Ctrl-C while %s asks for workers and parents ends it as interrupted, without a result",
  async (words) => {
    const { code, stdout } = await interrupted(":workers", ...words.split(" "));
    expect({ code, stdout }).toEqual({ code: EXIT.interrupted, stdout: [] });
  },
);
