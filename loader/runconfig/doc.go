// Package runconfig is the configuration of a run: all that shapes its plan and the rows made from it, which the first
// record of the plan keeps, with its checks and its fingerprint.
package runconfig
