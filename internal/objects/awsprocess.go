package objects

import (
	"context"
	"encoding/json"
	"os/exec"
	"runtime"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// ofProcess are the credentials that a profile's credential_process writes. What it says on its standard error may be secret and is left there.
func ofProcess(ctx context.Context, profile, command string) (credentials.Value, error) {
	shell := []string{"sh", "-c", command}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd.exe", "/C", command}
	}
	process := exec.CommandContext(ctx, shell[0], shell[1:]...)
	process.WaitDelay = time.Second // for what it has started, and holds its output
	text, err := process.Output()
	if err != nil {
		return credentials.Value{}, denied("credential_process of the profile %q fails: %w", profile, err)
	}
	var said struct {
		AccessKeyID                   string `json:"AccessKeyId"`
		SecretAccessKey, SessionToken string
		Expiration                    time.Time
	}
	if json.Unmarshal(text, &said) != nil || said.AccessKeyID == "" || said.SecretAccessKey == "" { // the error may have what is secret
		return credentials.Value{}, denied("credential_process of the profile %q writes no JSON with AccessKeyId and SecretAccessKey", profile)
	}
	return credentials.Value{AccessKeyID: said.AccessKeyID, SecretAccessKey: said.SecretAccessKey, SessionToken: said.SessionToken,
		Expiration: said.Expiration, SignerType: credentials.SignatureV4}, nil
}
