/**
 * In which order test files run. Most wait for leases, for processes and for Redis; some compute. Two of one kind at a
 * time leave a core idle or fight for it, so the kinds take turns, the long files of each kind first.
 */
import picomatch from "picomatch";
import type { TestSpecification } from "vitest/node";
import { BaseSequencer } from "vitest/node";

/**
 * Files that share a process, one after the other, so that the sources are loaded once: they open nothing that outlives
 * them, which the leak check holds.
 */
export const SHARING_A_PROCESS: readonly string[] = [
  "test/unit/**/*.test.ts",
  "test/integration/*.test.ts",
  "test/integration/{offline,origins,producer,service,verbs,worker}/**/*.test.ts",
  "test/deploy/**/*.test.ts",
  "test/helpers/**/*.test.ts",
];

/** Files among those that need a process of their own, and why. */
export const SOLITARY: Readonly<Record<string, string>> = {
  "test/unit/worker/tools/search/matcher.test.ts": "counts the threads of its process",
  "test/unit/cli/local/**/*.test.ts": "starts servers as children of its process",
  "test/unit/shared/redis/connection/**/*.test.ts": "starts, stops and starves servers of its own",
  "test/integration/verbs/interleaving.test.ts": "runs for as long as many others together",
  "test/integration/verbs/cluster.test.ts": "starts a cluster of its own",
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

/** Sorts what vitest would run next to what it leaves idle. */
export default class Schedule extends BaseSequencer {
  /** Vitest's own order (groups, then what took longest last time), with the two kinds of files taking turns. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const groupOf = ({ project }: TestSpecification) => project.config.sequence.groupOrder;
    // A process is used again for the next file of the same project alone: the projects of a group follow one another.
    const projects = [...new Set(sorted.map(({ project }) => project))];
    const pathOf = ({ moduleId, project }: TestSpecification) =>
      moduleId.slice(project.config.root.length + 1);
    return projects
      .map((project) => sorted.filter((file) => file.project === project))
      .sort(([a], [b]) => (a && b ? groupOf(a) - groupOf(b) : 0))
      .flatMap((files) => inTurns(files, pathOf));
  }
}

/** The files with the two kinds taking turns; within a kind the order stays. `pathOf` is relative to the repository. */
export function inTurns<File>(files: readonly File[], pathOf: (file: File) => string): File[] {
  const matches = picomatch([...COMPUTING]);
  const computing = files.filter((file) => matches(pathOf(file)));
  const waiting = files.filter((file) => !matches(pathOf(file)));
  return Array.from({ length: Math.max(computing.length, waiting.length) }).flatMap((_, index) =>
    [waiting[index], computing[index]].filter((file) => file !== undefined),
  );
}
