//go:build !unix

package record

import "time"

// ProcessorTime panics, because processor time is measured on Unix systems only.
func ProcessorTime() time.Duration { panic("processor time is measured on Unix systems only") }
