/** Who may import whom: the rooms of the house, and the one door that each package and built-in module has. */
import { isBuiltin } from "node:module";
import { means } from "./ambient.ts";
import { COMPUTED, findNodes, type Import, type Source, type Violation } from "./source.ts";

/** A folder (ends in `/`) or file of src. The longest matching row is the file's. */
export interface Room {
  room: string;
  /** The rooms it may import, besides itself. Each stands above it in the table: there is no way back up. */
  may: readonly string[];
  /** Files of which it may import types, and nothing that exists at run time. */
  types?: readonly string[];
  /** The only packages; default: whatever has its door here. */
  packages?: readonly string[];
  /** The only built-in modules; default: whatever has its door here. */
  builtins?: readonly string[];
}

const PROTOCOL = "src/shared/protocol/";
const SHARED = [PROTOCOL, "src/shared/secrets.ts", "src/shared/errors.ts", "src/shared/"];
const REDIS = ["src/shared/redis/connection/", "src/shared/redis/"];
const TOOL_KIT = ["src/worker/tools/roots.ts", "src/worker/tools/tool.ts", "src/worker/tools/workspace.ts"];
const FILES = ["src/worker/tools/result-text.ts", "src/worker/tools/files/", "src/worker/tools/search/"];
const PRODUCER = [
  "src/producer/push-iterator.ts",
  "src/producer/redis-call.ts",
  "src/producer/subscriber.ts",
  "src/producer/replies/",
  "src/producer/",
];
const MODEL = ["src/worker/model/", "src/worker/model/anthropic/"];
const TERMINAL = [
  "src/worker/tools/roots.ts",
  "src/cli/terminal/",
  "src/cli/command.ts",
  "src/cli/process.ts",
  "src/cli/shell-command.ts",
];

/** Every room, from the ground up. */
export const ROOMS: readonly Room[] = [
  { room: PROTOCOL, may: [], packages: ["zod"], builtins: ["node:crypto"] },
  { room: "src/shared/secrets.ts", may: [], packages: [], builtins: [] },
  { room: "src/shared/errors.ts", may: [PROTOCOL, "src/shared/secrets.ts"], packages: ["zod"], builtins: [] },
  { room: "src/shared/", may: SHARED.slice(0, 3) },
  { room: "src/shared/redis/connection/", may: SHARED },
  { room: "src/shared/redis/", may: [...SHARED, "src/shared/redis/connection/"] },

  { room: "src/producer/push-iterator.ts", may: SHARED },
  { room: "src/producer/redis-call.ts", may: [...SHARED, ...REDIS] },
  { room: "src/producer/subscriber.ts", may: [...SHARED, "src/producer/redis-call.ts"] },
  { room: "src/producer/replies/", may: [...SHARED, ...REDIS, ...PRODUCER.slice(0, 3)] },
  { room: "src/producer/", may: [...SHARED, ...REDIS, ...PRODUCER.slice(0, 4)] },
  { room: "src/index.ts", may: [...SHARED, ...REDIS, ...PRODUCER] },

  { room: "src/worker/model/", may: SHARED },
  { room: "src/worker/model/anthropic/", may: [...SHARED, "src/worker/model/"] },
  { room: "src/worker/tools/roots.ts", may: SHARED },
  { room: "src/worker/tools/workspace.ts", may: [...SHARED, "src/worker/tools/roots.ts"] },
  { room: "src/worker/tools/tool.ts", may: [...SHARED, "src/worker/tools/workspace.ts"] },
  { room: "src/worker/tools/result-text.ts", may: SHARED },
  { room: "src/worker/tools/files/", may: [...SHARED, ...TOOL_KIT, "src/worker/tools/result-text.ts"] },
  { room: "src/worker/tools/search/", may: [...SHARED, ...TOOL_KIT, "src/worker/tools/files/"] },
  { room: "src/worker/tools/sandbox/", may: [...SHARED, ...TOOL_KIT, ...FILES] },
  { room: "src/worker/tools/mcp/", may: [...SHARED, ...TOOL_KIT] },
  { room: "src/worker/tools/builtin/", may: [...SHARED, ...TOOL_KIT, ...FILES, "src/worker/tools/sandbox/"] },
  { room: "src/worker/tools/", may: [...SHARED, ...TOOL_KIT, ...FILES] },
  {
    room: "src/worker/loop/",
    may: [PROTOCOL],
    types: ["src/worker/model/model.ts", "src/worker/tools/tool.ts"],
    packages: ["zod"],
    builtins: [],
  },
  { room: "src/worker/observe/", may: [...SHARED, ...REDIS] },
  { room: "src/worker/skills/", may: [...SHARED, ...TOOL_KIT, "src/worker/tools/files/"] },
  {
    room: "src/worker/hooks/",
    may: [...SHARED, "src/worker/tools/result-text.ts", "src/worker/tools/"],
  },
  { room: "src/worker/isolation.ts", may: SHARED },
  {
    room: "src/worker/run/",
    may: [
      ...SHARED,
      ...REDIS,
      "src/worker/model/",
      ...TOOL_KIT,
      "src/worker/tools/",
      "src/worker/tools/builtin/",
      "src/worker/loop/",
      "src/worker/observe/",
      "src/worker/skills/",
      "src/worker/hooks/",
      "src/worker/isolation.ts",
    ],
  },
  {
    room: "src/worker/health/",
    may: [...SHARED, ...REDIS, "src/worker/model/", "src/worker/observe/", "src/worker/run/"],
  },
  {
    room: "src/worker/",
    may: [
      ...SHARED,
      ...REDIS,
      ...MODEL,
      ...TOOL_KIT,
      "src/worker/tools/",
      "src/worker/tools/builtin/",
      "src/worker/tools/mcp/",
      "src/worker/tools/sandbox/",
      "src/worker/skills/",
      "src/worker/hooks/",
      "src/worker/isolation.ts",
      "src/worker/observe/",
      "src/worker/run/",
      "src/worker/health/",
    ],
  },

  { room: "src/offline/", may: [], packages: ["zod"] },
  { room: "src/service/board/", may: [...SHARED, ...REDIS] },
  { room: "src/service/webhooks/", may: [...SHARED, ...REDIS, ...PRODUCER] },
  {
    room: "src/service/api/",
    may: [...SHARED, ...REDIS, ...PRODUCER, "src/service/board/", "src/service/webhooks/"],
  },
  { room: "src/service/agent-protocol/", may: [...SHARED, ...REDIS, ...PRODUCER, "src/service/api/"] },
  { room: "src/service/intake/", may: [...SHARED, ...REDIS, ...PRODUCER] },
  { room: "src/service/mcp/", may: [...SHARED, ...REDIS, ...PRODUCER, "src/service/api/"] },
  {
    room: "src/service/index.ts",
    may: [
      ...[...SHARED, ...REDIS, ...PRODUCER, "src/service/board/", "src/service/intake/", "src/service/api/"],
      "src/service/webhooks/",
      "src/service/mcp/",
      "src/service/agent-protocol/",
    ],
  },
  {
    room: "src/service/",
    may: [...SHARED, ...REDIS, ...PRODUCER, "src/service/agent-protocol/", "src/service/board/"],
  },

  { room: "src/cli/terminal/", may: [...SHARED, "src/worker/tools/roots.ts"] },
  { room: "src/cli/command.ts", may: [...SHARED, ...TERMINAL.slice(0, 2)] },
  { room: "src/cli/process.ts", may: [...SHARED, ...TERMINAL.slice(0, 3)] },
  { room: "src/cli/shell-command.ts", may: [], packages: [] },
  {
    room: "src/cli/local/",
    may: [
      ...SHARED,
      ...REDIS,
      ...PRODUCER,
      "src/worker/skills/",
      "src/worker/",
      ...MODEL,
      ...TOOL_KIT,
      "src/worker/tools/builtin/",
      "src/worker/tools/sandbox/",
      "src/offline/",
      ...["src/service/intake/", "src/service/api/", "src/service/mcp/", "src/service/agent-protocol/"],
      ...TERMINAL,
    ],
  },
  { room: "src/cli/as-parent.ts", may: [...SHARED, ...PRODUCER, ...TERMINAL, "src/cli/local/"] },
  {
    room: "src/cli/doctor/",
    may: [
      ...SHARED,
      ...REDIS,
      "src/worker/",
      "src/worker/tools/workspace.ts",
      ...MODEL,
      "src/offline/",
      ...TERMINAL,
      "src/cli/local/",
    ],
  },
  {
    room: "src/cli/verbs/",
    may: [
      ...[...SHARED, ...REDIS, ...PRODUCER, "src/worker/", ...MODEL, "src/worker/health/", "src/offline/"],
      // To replay it.
      "src/worker/loop/",
      ...[
        "src/service/board/",
        "src/service/mcp/",
        "src/service/api/",
        "src/service/agent-protocol/",
        "src/service/webhooks/",
        "src/service/",
        ...TERMINAL,
      ],
      ...["src/cli/local/", "src/cli/as-parent.ts", "src/cli/doctor/"],
    ],
  },
  {
    room: "src/cli/",
    may: [...SHARED, ...TERMINAL, "src/cli/local/", "src/cli/as-parent.ts", "src/cli/verbs/"],
  },
];

/** Where a package or a built-in module may be imported. A package without a row is refused everywhere. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  zod: ["src/"],
  ioredis: ["src/shared/redis/"],
  bullmq: [
    "src/shared/redis/wake-queue.ts",
    "src/shared/redis/intake-queue.ts",
    "src/shared/redis/intake-jobs.ts",
    "src/worker/pool.ts",
  ],
  "@anthropic-ai/sdk": ["src/worker/model/anthropic/"],
  "ipaddr.js": ["src/shared/address-range.ts"],
  undici: ["src/service/webhooks/request.ts", "src/worker/model/anthropic/"],
  pino: ["src/shared/logger.ts"],
  "prom-client": ["src/service/api/metrics.ts", "src/worker/observe/metrics.ts"],
  "@opentelemetry/api": ["src/shared/telemetry.ts", "src/worker/observe/spans.ts"],
  commander: ["src/cli/"],
  "js-redis-server": ["src/cli/local/embedded-redis-child.ts", "src/cli/local/embedded-lua-numbers.ts"],
  express: ["src/service/"],
  helmet: ["src/service/"],
  "rate-limiter-flexible": ["src/service/api/auth.ts"],
  "@bull-board/api": ["src/service/board/bull-board.ts"],
  "@bull-board/express": ["src/service/board/bull-board.ts"],
  picomatch: ["src/worker/tools/search/thread.js"],
  re2js: ["src/worker/tools/search/thread.js"],
  ignore: ["src/worker/tools/search/thread.js"],
  "@cfworker/json-schema": ["src/worker/tools/search/thread.js"],
  "@modelcontextprotocol/server": ["src/service/mcp/", "src/worker/skills/"],
  "@modelcontextprotocol/node": ["src/service/mcp/"],
  "@modelcontextprotocol/client": ["src/worker/tools/mcp/"],
  yaml: ["src/producer/definitions/front-matter.ts"],
  "wrap-ansi": ["src/cli/terminal/"],
  "string-width": ["src/cli/terminal/"],
  "node:module": [],
  "node:vm": ["src/worker/tools/search/thread.js"],
  "node:cluster": [],
  "node:assert": [],
  "node:assert/strict": [],
  "node:repl": [],
  "node:inspector": ["src/worker/health/watchdog.ts"],
  "node:timers": ["src/shared/clock.ts", "src/offline/"],
  "node:timers/promises": ["src/shared/clock.ts", "src/offline/"],
  "node:child_process": [
    "src/cli/local/",
    "src/cli/doctor/workspaces.ts",
    "src/worker/isolation-processes.ts",
    "src/worker/tools/sandbox/",
    "src/worker/tools/mcp/",
  ],
  "node:worker_threads": [
    "src/worker/tools/search/",
    "src/worker/health/",
    "src/worker/pool.ts",
    "src/worker/worker.ts",
  ],
  "node:http": [
    "src/offline/",
    "src/service/",
    "src/worker/health/",
    "src/worker/tools/sandbox/egress.ts",
    "src/shared/http-server.ts",
  ],
  "node:https": [],
  "node:http2": [],
  "node:dgram": [],
  "node:tls": ["src/shared/redis/connection/"],
  "node:net": [
    "src/cli/local/",
    "src/shared/redis/connection/",
    "src/shared/http-server.ts",
    "src/service/webhooks/address.ts",
    "src/shared/address-range.ts",
    "src/worker/tools/sandbox/egress.ts",
  ],
};

/** What the language itself has for the network, and the files that may use it. */
const NETWORK: Readonly<Record<string, readonly string[]>> = {
  fetch: ["src/service/agent-protocol/callback.ts"],
  WebSocket: [],
  EventSource: [],
};

/** Imports between files of src that the table of rooms does not allow. */
export function findForbiddenImports(sources: readonly Source[]): Violation[] {
  return eachImport(sources, (path, { specifier, target, typeOnly }) => {
    if (specifier === COMPUTED) return "a computed import can reach anything; name the module";
    if (target === undefined) return undefined;
    const room = roomOf(path);
    if (room === undefined) return `${path} is in no room: give it a row in test/architecture/rooms.ts`;
    const theirs = roomOf(target)?.room ?? target;
    if (theirs === room.room || room.may.includes(theirs)) return undefined;
    if (room.types?.includes(target)) {
      return typeOnly ? undefined : `${room.room} may import ${target} with \`import type\` only`;
    }
    return `${room.room} may not import ${target}`;
  });
}

/** Packages, built-in modules and the network's globals that come in by another way than their door. */
export function findSideDoors(sources: readonly Source[]): Violation[] {
  return [...findSideImports(sources), ...findSideNetwork(sources)];
}

function findSideNetwork(sources: readonly Source[]): Violation[] {
  const globals = Object.keys(NETWORK).map((name) => `node:${name}`);
  return findNodes(sources, (node, source) => {
    if (!means(node, source, globals)) return undefined;
    const name = source.meaningOf(node)?.name ?? "";
    const doors = NETWORK[name] ?? [];
    return doors.some(contains(source.path))
      ? undefined
      : `${name} may only be used in ${doors.join(", ") || "no file"}`;
  });
}

function findSideImports(sources: readonly Source[]): Violation[] {
  return eachImport(sources, (path, { specifier, target }) => {
    if (target !== undefined || specifier === COMPUTED) return undefined;
    const room = roomOf(path);
    const builtin = isBuiltin(specifier);
    const name = builtin ? `node:${specifier.replace(/^node:/, "")}` : packageOf(specifier);
    const only = builtin ? room?.builtins : room?.packages;
    if (only?.includes(name) === false) return `${room?.room} may not import ${name}`;
    const doors = DOORS[name];
    if (doors === undefined) {
      return builtin ? undefined : `${name} has no door yet: give it one in test/architecture/rooms.ts`;
    }
    return doors.some(contains(path))
      ? undefined
      : `${name} may only be imported in ${doors.join(", ") || "no file"}`;
  });
}

/** Rows that allow an import of a room that stands below them, or of none: the arrows of such a table lead round. */
export function findUpwardRows(rooms: readonly Room[]): string[] {
  return rooms.flatMap(({ room, may }, index) => {
    const above = new Set(rooms.slice(0, index).map((row) => row.room));
    return may.filter((other) => !above.has(other)).map((other) => `${room} -> ${other}`);
  });
}

function eachImport(
  sources: readonly Source[],
  judge: (path: string, imported: Import) => string | undefined,
): Violation[] {
  return sources.flatMap(({ path, imports }) =>
    imports.flatMap((imported) => {
      const message = judge(path, imported);
      return message === undefined ? [] : [{ path, line: imported.line, message }];
    }),
  );
}

function roomOf(path: string): Room | undefined {
  const rooms = ROOMS.filter(({ room }) => contains(path)(room));
  return rooms.sort((a, b) => b.room.length - a.room.length)[0];
}

/** Whether a row (a folder or a file) contains the path. */
function contains(path: string): (row: string) => boolean {
  return (row) => (row.endsWith("/") ? path.startsWith(row) : path === row);
}

function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}
