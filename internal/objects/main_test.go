package objects_test

import (
	"os"
	"testing"

	"loaderd/internal/objecttest"
)

// TestMain prevents the tests from using the credentials of the user who runs them.
func TestMain(m *testing.M) {
	objecttest.KeepCaches()
	home, err := os.MkdirTemp("", "objects")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"HOME", "XDG_CACHE_HOME"} {
		_ = os.Setenv(name, home)
	}
	for _, name := range []string{"HF_TOKEN", "HF_HOME", "HF_TOKEN_PATH", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
		"AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
		"AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_ENDPOINT_URL_S3", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"GOOGLE_APPLICATION_CREDENTIALS",
		"AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY"} {
		_ = os.Unsetenv(name)
	}
	_ = os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	code := m.Run()
	_ = os.RemoveAll(home)
	os.Exit(code)
}
