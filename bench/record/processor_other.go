//go:build !unix

package record

import "time"

// ProcessorTime panics: figures of processor time are measured on Unix systems only.
func ProcessorTime() time.Duration { panic("processor time is measured on Unix systems only") }
