package org.apache.hudi.aws.transaction.lock;

import com.amazonaws.AmazonClientException;
import com.amazonaws.ClientConfiguration;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.s3.AmazonS3;
import com.amazonaws.services.s3.AmazonS3ClientBuilder;
import com.amazonaws.services.s3.model.AmazonS3Exception;
import com.amazonaws.services.s3.model.ObjectMetadata;
import com.amazonaws.services.s3.model.PutObjectRequest;
import com.amazonaws.services.s3.model.S3Object;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Properties;
import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;

/**
 * The S3 half of Hudi's storage lock for tests: one object, replaced by conditional PUTs.
 *
 * <p>Hudi's bundle for Spark has the lock itself (StorageBasedLockProvider) and looks this class up
 * by name, but does not hold it. What the object says, when it may be taken and who renews it is
 * Hudi's business. Endpoint and credentials come from the environment, as other clients take them.
 */
public final class S3StorageLockClient implements StorageLockClient {
  private final AmazonS3 s3;
  private final String bucket;
  private final String key;

  /** Called by reflection: the lock's owner, the URI of its object, the settings of the writer. */
  public S3StorageLockClient(String owner, String lockFile, Properties settings) {
    Pair<String, String> place = StorageLockClient.parseBucketAndPath(lockFile);
    bucket = place.getLeft();
    key = place.getRight();
    String endpoint = System.getenv("AWS_ENDPOINT_URL");
    if (endpoint == null) {
      throw new IllegalStateException("AWS_ENDPOINT_URL is not set");
    }
    s3 =
        AmazonS3ClientBuilder.standard()
            .withEndpointConfiguration(new EndpointConfiguration(endpoint, "us-east-1"))
            .withPathStyleAccessEnabled(true)
            // A conditional PUT that is sent again after a lost reply would be refused as another's.
            .withClientConfiguration(new ClientConfiguration().withMaxErrorRetry(0))
            .build();
  }

  @Override
  public Pair<LockUpsertResult, Option<StorageLockFile>> tryUpsertLockFile(
      StorageLockData wanted, Option<StorageLockFile> previous) {
    byte[] body = StorageLockFile.toByteArray(wanted);
    PutObjectRequest request = put(body);
    if (previous.isPresent()) {
      request.putCustomRequestHeader("If-Match", "\"" + previous.get().getVersionId() + "\"");
    } else {
      request.putCustomRequestHeader("If-None-Match", "*");
    }
    try {
      String version = s3.putObject(request).getETag();
      return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(wanted, version)));
    } catch (AmazonS3Exception refused) {
      return Pair.of(meaning(refused.getStatusCode()), Option.empty());
    } catch (AmazonClientException unanswered) {
      return Pair.of(LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  @Override
  public Pair<LockGetResult, Option<StorageLockFile>> readCurrentLockFile() {
    try (S3Object found = s3.getObject(bucket, key)) {
      String version = found.getObjectMetadata().getETag();
      StorageLockFile file =
          StorageLockFile.createFromStream(found.getObjectContent(), version);
      return Pair.of(LockGetResult.SUCCESS, Option.of(file));
    } catch (AmazonS3Exception refused) {
      boolean absent = refused.getStatusCode() == 404;
      return Pair.of(
          absent ? LockGetResult.NOT_EXISTS : LockGetResult.UNKNOWN_ERROR, Option.empty());
    } catch (AmazonClientException | IOException unanswered) {
      return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  @Override
  public Option<String> readObject(String path, boolean checkExistsFirst) {
    Pair<String, String> place = StorageLockClient.parseBucketAndPath(path);
    try {
      return Option.of(s3.getObjectAsString(place.getLeft(), place.getRight()));
    } catch (AmazonClientException absent) {
      return Option.empty();
    }
  }

  @Override
  public boolean writeObject(String path, String content) {
    Pair<String, String> place = StorageLockClient.parseBucketAndPath(path);
    try {
      s3.putObject(place.getLeft(), place.getRight(), content);
      return true;
    } catch (AmazonClientException unanswered) {
      return false;
    }
  }

  @Override
  public void close() {
    s3.shutdown();
  }

  private PutObjectRequest put(byte[] body) {
    ObjectMetadata metadata = new ObjectMetadata();
    metadata.setContentLength(body.length);
    return new PutObjectRequest(bucket, key, new ByteArrayInputStream(body), metadata);
  }

  private static LockUpsertResult meaning(int status) {
    switch (status) {
      case 404: // What was to be replaced is gone.
      case 409: // Another conditional request on the object was under way.
      case 412:
        return LockUpsertResult.ACQUIRED_BY_OTHERS;
      case 429:
      case 503:
        return LockUpsertResult.THROTTLED;
      default:
        return LockUpsertResult.UNKNOWN_ERROR;
    }
  }
}
