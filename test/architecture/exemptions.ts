import type { RuleName } from "./rules.ts";

/** A file that may break one rule, and why. An exemption that is no longer needed fails the test. */
export interface Exemption {
  rule: RuleName;
  path: string;
  reason: string;
}

/** All exemptions there are. Rules that name their own door (config, clock, service, logger) need none. */
export const EXEMPTIONS: readonly Exemption[] = [
  {
    rule: "every unit test mirrors a source",
    path: "test/unit/shared/protocol-doc.test.ts",
    reason: "It holds docs/protocol.md against the keys, scripts and durations of all of src/shared.",
  },
];
