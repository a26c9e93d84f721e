// Command loaderd is a streaming data loader for training loops. It reads documents from NATS JetStream, and serves
// packed and shuffled steps over Arrow Flight.
package main

import (
	"context"
	"os"

	"loaderd/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
