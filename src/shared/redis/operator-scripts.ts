/** The scripts of the operator (`subagent-queue doctor`), for the table of scripts. */

/** See the module's sentence. */
export const OPERATOR_SCRIPTS = {
  inspect: {
    keys: ["record", "log", "inbox", "life", "steps", "live", "registry"],
    args: ["uid"],
    answers: {
      found: [
        "now",
        "version",
        "agent_id",
        "agent_status",
        "deadline",
        "lease_until",
        "since",
        "max_age_ms",
        "wake",
        "worker",
        "barren_deaths",
        "life_ms",
        "log",
        "inbox",
        "counted",
        "named",
      ],
      gone: ["now", "life_ms", "log", "inbox", "steps", "counted"],
    },
  },
  mend: {
    keys: ["record", "log", "inbox", "life", "steps", "live", "registry"],
    args: ["uid", "registry_ttl_ms"],
    answers: { mended: ["removed", "counted", "named"], whole: [] },
  },
} as const;
