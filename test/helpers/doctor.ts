/** The doctor inside a test: looks at an installation, and repairs it, less patiently than the command does. */
import { hostname } from "node:os";
import { createClosing } from "../../src/cli/closing.ts";
import { cure } from "../../src/cli/doctor/cure.ts";
import { type ExaminationOptions, examine } from "../../src/cli/doctor/examination.ts";
import type { Facts } from "../../src/cli/doctor/facts.ts";
import { openInstallation } from "../../src/cli/doctor/installation.ts";
import { judge } from "../../src/cli/doctor/judgement.ts";
import type { Finding } from "../../src/cli/doctor/report.ts";
import { readWorkspaces } from "../../src/cli/doctor/workspaces.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { createLogger } from "../../src/shared/logger.ts";
import type { Timing } from "../../src/shared/protocol/timing.ts";
import { closeAtEnd } from "./cleanup.ts";
import { type Installation, SHORT_TIMING } from "./installation.ts";
import { redisUrl } from "./redis.ts";

const IMPATIENT = { graceMs: 400, secondLookMs: 100 };
/** Most installations of the tests have no worker. */
const NO_WORKERS = ["no_workers", "work_without_workers"];

export interface TestDoctor {
  look(): Promise<{ facts: Facts; findings: Finding[] }>;
  /** The findings by check, but those about missing workers and about the settings of the tests' server. */
  findings(): Promise<Record<string, Finding>>;
  /** What `--fix` does. */
  fix(): Promise<void>;
}

/** Opens a doctor for an installation; closed with the test. */
export async function doctorFor(
  { prefix, workspaceRoot }: Installation,
  { timing = SHORT_TIMING, ...options }: Partial<ExaminationOptions> & { timing?: Timing } = {},
): Promise<TestDoctor> {
  const closing = createClosing();
  closeAtEnd(() => closing.close());
  const logger = createLogger({ level: "silent" });
  const opened = await openInstallation(redisUrl(), { prefix, clock: systemClock, logger, timing }, closing);
  const { store, inspection } = opened;
  const place = { root: workspaceRoot, clock: systemClock, store, inspection };
  const look = async () => {
    const facts = await examine(opened, { host: hostname(), isProduction: false, ...IMPATIENT, ...options });
    const workspaces = await readWorkspaces(place, facts.agents);
    return { facts, workspaces, ...judge(facts, workspaces) };
  };
  return {
    look,
    async findings() {
      const { findings } = await look();
      const about = findings.filter(({ check, area }) => area !== "redis" && !NO_WORKERS.includes(check));
      return Object.fromEntries(about.map((finding) => [finding.check, finding]));
    },
    async fix() {
      const { facts, workspaces } = await look();
      await cure(opened, facts, workspaces);
    },
  };
}
