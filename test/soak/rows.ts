/** The samples of a soak as rows, from which table lines, plots and verdicts are made. */
import type { Watched } from "./fleet.ts";
import { judgeFlat, judgeLag, judgeMemory, type Point, type Verdict } from "./judge.ts";
import type { Plot } from "./plot.ts";

/** A sample of one process. */
export interface ProcessRow {
  rssMb: number;
  liveMb: number;
  lagMs: number;
  descriptors: number;
  active: number;
}

/** A sample of the whole soak. `hours`: since the beginning; `keys` and `redisMb` are absent if Redis was unavailable. */
export interface Row {
  hours: number;
  processes: ReadonlyMap<string, ProcessRow>;
  idleLagMs: number;
  keys?: number;
  redisMb?: number;
  strikes: number;
}

/** Bytes per MB. */
export const MB = 1024 * 1024;
const MEMORY_LIMIT_MB_AN_HOUR = 1;
const LAG_LIMIT_MS = 100;
/** Tolerated growth of the number of descriptors: sockets that come and go with the load. */
const DESCRIPTORS_TOLERANCE = 8;

/** Returns the current sample of a process; undefined before its first sample, or when it is gone. */
export function rowOf({ newest, descriptors }: Watched): ProcessRow | undefined {
  if (!newest || descriptors === undefined) return undefined;
  const { rssBytes, liveBytes, lagP99Ms, active } = newest;
  return { rssMb: rssBytes / MB, liveMb: liveBytes / MB, lagMs: lagP99Ms, descriptors, active };
}

const COLUMNS = [
  "min",
  "process",
  "rss MB",
  "live MB",
  "lag p99",
  "idle lag",
  "fds",
  "active",
  "keys",
  "Redis MB",
  "faults",
];
const widths = COLUMNS.map((name) => Math.max(name.length, 8) + 1);
const cells = (values: readonly string[]) =>
  values.map((value, i) => value.padStart(widths[i] ?? 9)).join("");

/** The header line of the table. */
export const TABLE_HEAD = cells(COLUMNS.map((name) => (name === "process" ? "process".padEnd(15) : name)));

/** Returns the row as lines of the table, one per process. */
export function tableLines({ hours, processes, idleLagMs, keys, redisMb, strikes }: Row): string[] {
  return [...processes].map(([name, one]) =>
    cells([
      (hours * 60).toFixed(1),
      name.padEnd(15),
      one.rssMb.toFixed(1),
      one.liveMb.toFixed(2),
      one.lagMs.toFixed(1),
      idleLagMs.toFixed(1),
      String(one.descriptors),
      String(one.active),
      String(keys ?? "away"),
      redisMb?.toFixed(1) ?? "away",
      String(strikes),
    ]),
  );
}

function pointsOf(rows: readonly Row[], name: string, figure: (row: ProcessRow) => number): Point[] {
  return rows.flatMap(({ hours, processes }) => {
    const one = processes.get(name);
    return one ? [{ x: hours, y: figure(one) }] : [];
  });
}

/** Returns the plots of a soak. */
export function plotsOf(rows: readonly Row[], marks: readonly number[]): Plot[] {
  const names = [...new Set(rows.flatMap(({ processes }) => [...processes.keys()]))];
  const each = (title: string, figure: (row: ProcessRow) => number): Plot => ({
    title,
    series: names.map((name) => ({ name, points: pointsOf(rows, name, figure) })),
    marks,
  });
  const ofRedis = (title: string, figure: (row: Row) => number | undefined): Plot => ({
    title,
    series: [
      {
        name: "Redis",
        points: rows.flatMap((row) => {
          const y = figure(row);
          return y === undefined ? [] : [{ x: row.hours, y }];
        }),
      },
    ],
    marks,
  });
  return [
    each("memory after a collection, MB", ({ liveMb }) => liveMb),
    each("resident memory, MB", ({ rssMb }) => rssMb),
    each("event-loop lag p99, ms", ({ lagMs }) => lagMs),
    each("descriptors", ({ descriptors }) => descriptors),
    ofRedis("keys", ({ keys }) => keys),
    ofRedis("Redis memory, MB", ({ redisMb }) => redisMb),
  ];
}

/** Judges each process in the rows, from the end of the warm-up on. */
export function judgeProcesses(rows: readonly Row[], warmUpHours: number): Verdict[] {
  const judged = rows.filter(({ hours }) => hours >= warmUpHours);
  const names = [...new Set(judged.flatMap(({ processes }) => [...processes.keys()]))];
  return names.flatMap((name) => {
    const points = (figure: (row: ProcessRow) => number) => pointsOf(judged, name, figure);
    const windows = judged.flatMap(({ processes, idleLagMs }) => {
      const lagMs = processes.get(name)?.lagMs;
      return lagMs === undefined ? [] : [{ lagMs, idleLagMs }];
    });
    const descriptors = points((row) => row.descriptors).map(({ y }) => y);
    return [
      judgeMemory(
        `${name}: memory after a collection`,
        points((row) => row.liveMb),
        MEMORY_LIMIT_MB_AN_HOUR,
      ),
      judgeMemory(
        `${name}: resident memory`,
        points((row) => row.rssMb),
        MEMORY_LIMIT_MB_AN_HOUR,
      ),
      judgeLag(`${name}: event-loop lag`, windows, LAG_LIMIT_MS),
      judgeFlat(`${name}: descriptors`, descriptors, DESCRIPTORS_TOLERANCE),
    ];
  });
}
