package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-ini/ini"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// awsProfile is a profile of ~/.aws/config and ~/.aws/credentials; what stands in both counts as the latter has it.
type awsProfile struct {
	name     string
	found    bool // in one of the files
	settings map[string]string
}

// namedProfile is the profile that the environment names; empty where it names none.
func namedProfile() string { return cmp.Or(os.Getenv("AWS_PROFILE"), os.Getenv("AWS_DEFAULT_PROFILE")) }

// awsSyntax reads the files as AWS's programs do: values stand as they are.
var awsSyntax = ini.LoadOptions{InsensitiveKeys: true, IgnoreContinuation: true, SpaceBeforeInlineComment: true}

// readProfile reads a profile, the default one where name is empty. One that stands nowhere is no error.
func readProfile(name string) (awsProfile, error) {
	p := awsProfile{name: cmp.Or(name, "default"), settings: map[string]string{}}
	inConfig := p.name
	if inConfig != "default" {
		inConfig = "profile " + inConfig
	}
	for _, f := range []struct{ variable, name, section string }{
		{"AWS_CONFIG_FILE", "config", inConfig}, {"AWS_SHARED_CREDENTIALS_FILE", "credentials", p.name},
	} {
		path := os.Getenv(f.variable)
		if path == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				continue
			}
			path = filepath.Join(home, ".aws", f.name)
		}
		file, err := ini.LoadSources(awsSyntax, path)
		var unread *fs.PathError
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.As(err, &unread):
			return p, unread
		case err != nil: // it has the line, in which there may be a key
			return p, fmt.Errorf("%s can not be read: want sections in brackets, and lines such as region = us-east-1", path)
		}
		section, err := file.GetSection(f.section)
		if err != nil {
			continue
		}
		p.found = true
		for _, key := range section.Keys() {
			p.settings[key.Name()] = key.Value()
		}
	}
	return p, nil
}

// errNoCredentials is of a profile that gives none.
var errNoCredentials = errors.New("the profile has no credentials")

// ofProfile are the credentials of a profile, or errNoCredentials. within are the profiles that it is a source of.
func (a *awsIdentity) ofProfile(ctx context.Context, p awsProfile, within []string) (credentials.Value, error) {
	if slices.Contains(within, p.name) {
		return credentials.Value{}, denied("the profile %q is, by source_profile, a source of itself", p.name)
	}
	if p.settings["role_arn"] != "" {
		return a.ofRole(ctx, p, append(within, p.name))
	}
	return p.own(ctx)
}

// own are the credentials that a profile has without a role, or errNoCredentials.
func (p awsProfile) own(ctx context.Context) (credentials.Value, error) {
	v, err := keys(p.settings["aws_access_key_id"], p.settings["aws_secret_access_key"], p.settings["aws_session_token"])
	if err != nil || v.AccessKeyID != "" {
		return v, err
	}
	if command := p.settings["credential_process"]; command != "" {
		return ofProcess(ctx, p.name, command)
	}
	for _, setting := range []string{"sso_session", "sso_start_url", "sso_account_id", "login_session"} {
		if p.settings[setting] != "" {
			return v, denied("the profile %q logs in by %s, which is not supported: give another profile the line "+
				"credential_process = aws configure export-credentials --profile %s --format process, and name that one", p.name, setting, p.name)
		}
	}
	return v, errNoCredentials
}
