/**
 * Decides the order of the test files. Most wait for leases, processes and Redis; some compute. Two files of the same kind
 * leave a core idle or compete for it, so the kinds alternate. The longest files of each kind come first.
 */
import picomatch from "picomatch";
import type { TestSpecification } from "vitest/node";
import { BaseSequencer } from "vitest/node";

/**
 * Files that need their own process, each with the reason. The others run one after the other in a shared process, so that the
 * sources are loaded once. The leak check ensures that they leave nothing open.
 */
export const SOLITARY: Readonly<Record<string, string>> = {
  "test/unit/worker/observe/metrics.test.ts": "replaces the monitor of the event loop",
  "test/unit/worker/tools/roots.system.test.ts": "replaces what the system says of a file system",
  "test/unit/worker/tools/sandbox/choose.no-bash.test.ts": "takes the shell of commands away",
  "test/unit/worker/tools/search/matcher.defaults.test.ts": "counts the processes of its process",
  "test/unit/worker/tools/search/matcher.no-shell.test.ts": "takes the shell away",
  "test/unit/worker/tools/search/matcher.refused.test.ts": "refuses further processes",
  "test/unit/worker/tools/search/matcher.test.ts": "counts the processes of its process",
};

/** Files that keep a core busy: they start processes, compile, or run as fast as they can. */
const COMPUTING: readonly string[] = [
  "test/architecture*/**",
  "test/architecture.test.ts",
  "test/deploy/**",
  "test/e2e/**",
  "test/examples.test.ts",
  "test/integration/doctor*.test.ts",
  "test/integration/verbs/**",
  "test/integration/worker/throughput.test.ts",
  "test/scripts/**",
  "test/unit/**",
];

/** Files that take longer than 12 s, the longest first: if one started late, it would run alone at the end. */
export const LONG: readonly string[] = [
  "test/chaos/short.test.ts",
  "test/e2e/agent-verbs.test.ts",
  "test/e2e/cli.test.ts",
  "test/integration/worker/provider-limiter.test.ts",
  "test/integration/tools/hostile-patterns.test.ts",
  "test/chaos/redis-refusing.test.ts",
  "test/integration/tools/hostile-commands.test.ts",
  "test/integration/worker/takeover.test.ts",
  "test/integration/worker/charging.test.ts",
  "test/integration/worker/pausing.test.ts",
  "test/examples.test.ts",
  "test/readme.test.ts",
  "test/integration/cluster-trouble.test.ts",
  "test/soak/soak.test.ts",
  "test/chaos/draining.test.ts",
  "test/integration/doctor.test.ts",
  "test/chaos/redis-silence.test.ts",
  "test/integration/worker/answer-traffic.test.ts",
  "test/integration/worker/quarantine.test.ts",
  "test/chaos/hard-stop.test.ts",
  "test/chaos/redis-outage.test.ts",
  "test/integration/producer/redis-away.test.ts",
  "test/integration/cluster-failover.test.ts",
  "test/integration/cluster-failover.calls.test.ts",
  "test/integration/worker/hanging.test.ts",
  "test/chaos/options.test.ts",
  "test/integration/verbs/interleaving.test.ts",
  "test/integration/service/schedules.test.ts",
  "test/integration/worker/redis-outage.test.ts",
  "test/integration/worker/killing.test.ts",
  "test/unit/worker/tools/mcp/server.test.ts",
  "test/chaos/crash-points.test.ts",
  "test/integration/worker/left-behind.test.ts",
  "test/chaos/clock-jump.test.ts",
  "test/chaos/destroy.test.ts",
  "test/chaos/stale-worker.test.ts",
  "test/architecture.test.ts",
  "test/e2e/live-page.test.ts",
  "test/e2e/board.test.ts",
  "test/e2e/doctor.test.ts",
  "test/doors/mcp-kills.test.ts",
  "test/integration/worker/mixed-versions.test.ts",
  "test/integration/worker/provider-failures.test.ts",
  "test/integration/worker/draining.test.ts",
  "test/recipes.test.ts",
  "test/chaos/parents.test.ts",
  "test/chaos/redis-kill.test.ts",
  "test/setup/leak-check.test.ts",
  "test/integration/worker/sweeping.test.ts",
  "test/integration/doctor-measure.test.ts",
  "test/integration/worker/questions.test.ts",
  "test/integration/service/webhooks-idle.test.ts",
  "test/scripts/build.test.ts",
  "test/integration/worker/named-tools.test.ts",
  "test/integration/doctor-busy.test.ts",
  "test/integration/worker/isolation.test.ts",
  "test/deploy/compose.test.ts",
];

/** Vitest's sequencer with this order. */
export default class Schedule extends BaseSequencer {
  /** Sorts projects with isolated files first, then the projects with the fewest files; within each see {@link inTurns}. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const filesOf = (project: TestSpecification["project"]) =>
      sorted.filter((file) => file.project === project);
    // Vitest reuses a process only for files of the same project, so the projects run one after the other. The smallest come
    // first, because one long file for another kind of Redis would run alone at the end.
    const projects = [...new Set(sorted.map(({ project }) => project))].sort(
      (a, b) => Number(b.config.isolate) - Number(a.config.isolate) || filesOf(a).length - filesOf(b).length,
    );
    const pathOf = ({ moduleId, project }: TestSpecification) =>
      moduleId.slice(project.config.root.length + 1);
    return projects.flatMap((project) => inTurns(filesOf(project), pathOf));
  }
}

/** Alternates the two kinds, the long files of each first; otherwise keeps the order. `pathOf` is relative to the repository. */
export function inTurns<File>(files: readonly File[], pathOf: (file: File) => string): File[] {
  const matches = picomatch([...COMPUTING]);
  const rankOf = (file: File) => {
    const place = LONG.indexOf(pathOf(file));
    return place < 0 ? LONG.length : place;
  };
  const ranked = files.toSorted((a, b) => rankOf(a) - rankOf(b));
  const computing = ranked.filter((file) => matches(pathOf(file)));
  const waiting = ranked.filter((file) => !matches(pathOf(file)));
  return Array.from({ length: Math.max(computing.length, waiting.length) }).flatMap((_, index) =>
    [waiting[index], computing[index]].filter((file) => file !== undefined),
  );
}
