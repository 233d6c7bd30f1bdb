/**
 * Guarantee: a worker that was stopped past its leases can change nothing. Rounds: `STALE_ROUNDS` (default 5, the long
 * form is 100), in groups side by side.
 */
import { expect, test } from "vitest";
import { reportTime } from "../helpers/figures.ts";
import { startProxy } from "../helpers/proxy.ts";
import { startPrivateRedis } from "../helpers/redis.ts";
import type { RedisServer } from "../helpers/redis-server.ts";
import { openStage } from "../stage/stage.ts";
import { openChronicle } from "./chronicle.ts";
import {
  KILLED_WITHIN_MS,
  STALE_SCENARIO,
  STALE_TIMING,
  type StaleRound,
  staleRound,
} from "./stale-round.ts";

const ROUNDS = Number(process.env.STALE_ROUNDS ?? 5);
const GROUPS = 3;

/** A victim of its own and `rounds` rounds, one after the other. */
async function performGroup(server: RedisServer, rounds: number): Promise<StaleRound[]> {
  const installation = await openStage({
    redis: server,
    timing: STALE_TIMING,
    scenario: STALE_SCENARIO,
  });
  const journal = `${installation.workspaceRoot}/journal`;
  const chronicle = await openChronicle(server.url, installation.prefix);
  const line = await startProxy(server.port);
  const redisUrl = `redis://127.0.0.1:${line.port}`;
  const modelLine = await startProxy(Number(new URL(installation.offline.url).port));
  const modelUrl = `http://127.0.0.1:${modelLine.port}`;
  const victim = await installation.spawnWorker({ redisUrl, modelUrl, journal });
  const came: StaleRound[] = [];
  while (came.length < rounds) {
    came.push(await staleRound({ installation, chronicle, victim, line, modelLine, journal }, came.length));
  }
  return came;
}

test(`${ROUNDS} times stopped past its leases and woken up, a worker begins nothing and Redis refuses what it writes`, {
  timeout: 300_000 + ROUNDS * 15_000,
}, async () => {
  const server = await startPrivateRedis();
  const shares = Array.from({ length: GROUPS }, (_, group) => Math.floor((ROUNDS + group) / GROUPS));
  const rounds = (await Promise.all(shares.map((share) => performGroup(server, share)))).flat();
  const sum = (of: (round: StaleRound) => number) => rounds.reduce((total, round) => total + of(round), 0);
  const killedMs = Math.max(...rounds.map((round) => round.killedMs));
  process.stdout.write(
    `stale worker: ${rounds.length} stops, ${sum((r) => r.refused)} stale writes refused ` +
      `(${sum((r) => r.refusedCommits)} of them commits), what ran was dead after ${killedMs} ms at most\n`,
  );
  expect(rounds).toHaveLength(ROUNDS);
  expect(rounds.filter(({ refusedCommits }) => refusedCommits < 2)).toEqual([]);
  expect(sum((round) => round.accepted)).toBe(0);
  expect(sum((round) => round.begun)).toBe(0);
  expect(sum((round) => round.changed)).toBe(0);
  reportTime("what ran was dead", killedMs, KILLED_WITHIN_MS);
});
