// Package runconfig defines the configuration of a run: everything that determines its plan and the rows made from
// it. The first record of the plan stores it. The package also has its validation and its fingerprint.
package runconfig
