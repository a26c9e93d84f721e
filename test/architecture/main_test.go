// Package architecture_test checks the repository itself: imports, links, pages and the size of the program.
package architecture_test

// root is the working directory of every test. The tests enter it with t.Chdir and not in TestMain, because go test
// does not see a change of directory before the tests start. It would then take the files that a test reads for
// missing, and would reuse the cached result when they change.
const root = "../.."
