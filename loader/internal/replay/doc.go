// Package replay plans again what a plan log holds, and compares the steps.
package replay
