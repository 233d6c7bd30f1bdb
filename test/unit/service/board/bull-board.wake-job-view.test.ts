import { expect, test } from "vitest";
import { type JobFields, visibleFields } from "../../../../src/service/board/bull-board.ts";

const WAKE = {
  v: 1,
  tenant: "default",
  parent_id: "planner-7",
  uid: "sa-0123456789abcdef01234567",
  agent_id: "data_collector",
  wake: 3,
};
const SECRET = "canary";

function job(fields: Partial<JobFields> = {}): JobFields {
  return {
    name: "data_collector",
    data: WAKE,
    returnvalue: null,
    progress: 0,
    stacktrace: null,
    opts: { attempts: 1 },
    ...fields,
  };
}

test("a wake is shown as it is", () => {
  const shown = visibleFields(
    job({ returnvalue: { status: "succeeded", stop_reason: "end_turn", turns: 4 } }),
  );
  expect(shown.name).toBe("data_collector");
  expect(shown.data).toEqual(WAKE);
  expect(shown.returnvalue).toEqual({ status: "succeeded", stop_reason: "end_turn", turns: 4 });
  expect(shown.opts).toEqual({ attempts: 1 });
});

test("a wake without a run says why", () => {
  const { returnvalue } = visibleFields(job({ returnvalue: { status: "passed", because: "held" } }));
  expect(returnvalue).toEqual({ status: "passed", because: "held" });
});

test("a failed run is shown with its stop reason and without its stack", () => {
  const failedReason = "The run ended as failed: model_error.";
  const shown = visibleFields(job({ failedReason, stacktrace: [`Error: ${SECRET}\n at /srv/app.js`] }));
  expect(shown.failedReason).toBe(failedReason);
  expect(shown.stacktrace).toEqual([]);
});

test.for<Partial<JobFields>>([
  { name: `Summarise ${SECRET}` },
  { name: SECRET.repeat(20) },
  { data: { ...WAKE, prompt: SECRET } },
  { data: { ...WAKE, agent_id: `Summarise ${SECRET}` } },
  { data: SECRET },
  { returnvalue: { status: "succeeded", summary: SECRET } },
  { returnvalue: { status: `said ${SECRET}` } },
  { returnvalue: { status: "passed", because: `said ${SECRET}` } },
  { returnvalue: SECRET },
  { progress: { text: SECRET } },
  { progress: SECRET },
  { failedReason: `The model said ${SECRET}` },
  { failedReason: `The run ended as failed: ${SECRET}.` },
  { stacktrace: [SECRET] },
  { opts: { attempts: 1, ...{ repeat: { key: SECRET } } } },
])("text in %j is not shown", (fields) => {
  expect(JSON.stringify(visibleFields(job(fields)))).not.toContain(SECRET);
});

test("a failure outside of a run still stands as one", () => {
  expect(visibleFields(job({ failedReason: "boom" })).failedReason).toMatch(/^Failed outside of a run/);
});
