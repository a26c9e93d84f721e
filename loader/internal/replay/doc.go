// Package replay plans again what the log of a plan holds, and compares the steps.
package replay
