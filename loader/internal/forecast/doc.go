// Package forecast estimates how many steps a run will have.
package forecast
