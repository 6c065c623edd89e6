package tideline;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CatalystScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A frame over file slices that a Python function merges.
 *
 * Spark says which columns and partitions a query needs only when it plans it. Then the function is
 * given a row for each slice left: its descriptor, and the names of the columns as JSON.
 */
public class FileSliceRelation {

  /** Slices by name; `index` tells which of them are in which partition. */
  public static class Slices extends BaseRelation implements CatalystScan {
    private final SparkSession session;
    private final StructType schema;
    private final String smallest;
    private final InMemoryFileIndex index;
    private final Map descriptors;
    private final UserDefinedPythonFunction function;
    private final long bytes;
    private final int tasksMax;

    Slices(
        SparkSession session,
        StructType schema,
        String smallest,
        InMemoryFileIndex index,
        Map descriptors,
        UserDefinedPythonFunction function,
        long bytes,
        int tasksMax) {
      this.session = session;
      this.schema = schema;
      this.smallest = smallest;
      this.index = index;
      this.descriptors = descriptors;
      this.function = function;
      this.bytes = bytes;
      this.tasksMax = tasksMax;
    }

    public SQLContext sqlContext() {
      return session.sqlContext();
    }

    public StructType schema() {
      return schema;
    }

    public long sizeInBytes() {
      return bytes;
    }

    public boolean needConversion() {
      return false;
    }

    public RDD buildScan(
        scala.collection.immutable.Seq columns, scala.collection.immutable.Seq filters) {
      List names = new ArrayList();
      List fields = new ArrayList();
      for (int i = 0; i < columns.length(); i++) {
        names.add(((Attribute) columns.apply(i)).name());
      }
      if (names.isEmpty()) {
        // Arrow has no rows without columns.
        names.add(smallest);
      }
      for (int i = 0; i < names.size(); i++) {
        fields.add(schema.apply((String) names.get(i)));
      }
      List rows = rows(chosen(filters), json(names));
      StructType input = new StructType(new StructField[] {
          new StructField(
              "slice", DataTypes.BinaryType, false, org.apache.spark.sql.types.Metadata.empty()),
          new StructField(
              "columns", DataTypes.StringType, false, org.apache.spark.sql.types.Metadata.empty())
      });
      int tasks = Math.max(1, Math.min(tasksMax, rows.size()));
      Dataset slices = session.createDataFrame(
          JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(rows, tasks),
          input);
      UserDefinedPythonFunction reader = new UserDefinedPythonFunction(
          function.name(),
          function.func(),
          new StructType((StructField[]) fields.toArray(new StructField[0])),
          function.pythonEvalType(),
          true,
          function.transpiled(),
          function.transpiledInputTypes());
      List arguments = new ArrayList();
      arguments.add(slices.col("slice"));
      arguments.add(slices.col("columns"));
      Column call = reader.apply(CollectionConverters.asScala(arguments).toSeq());
      return slices.mapInArrow(call, false, null).queryExecution().toRdd();
    }

    /** Names of the slices that the filters leave. */
    private List chosen(scala.collection.immutable.Seq filters) {
      List evaluable = new ArrayList();
      for (int i = 0; i < filters.length(); i++) {
        Expression filter = (Expression) filters.apply(i);
        if (filter.deterministic() && !SubqueryExpression.hasSubquery(filter)) {
          evaluable.add(filter);
        }
      }
      scala.collection.immutable.Seq directories = index.listFiles(
          CollectionConverters.asScala(evaluable).toSeq(),
          CollectionConverters.asScala(evaluable).toSeq());
      List names = new ArrayList();
      for (int i = 0; i < directories.length(); i++) {
        scala.collection.immutable.Seq files =
            ((PartitionDirectory) directories.apply(i)).files();
        for (int j = 0; j < files.length(); j++) {
          names.add(((FileStatusWithMetadata) files.apply(j)).getPath().getName());
        }
      }
      return names;
    }

    private List rows(List names, String columns) {
      List rows = new ArrayList();
      for (int i = 0; i < names.size(); i++) {
        rows.add(RowFactory.create(new Object[] {descriptors.get(names.get(i)), columns}));
      }
      return rows;
    }

    private static String json(List names) {
      try {
        return new ObjectMapper().writeValueAsString(names);
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
    }
  }

  /** `smallest` is the column to read where a query wants none. */
  public Dataset frame(
      SparkSession session,
      StructType schema,
      String smallest,
      InMemoryFileIndex index,
      Map descriptors,
      UserDefinedPythonFunction function,
      long bytes,
      int tasksMax) {
    return session.baseRelationToDataFrame(
        new Slices(
            session, schema, smallest, index, descriptors, function, bytes, tasksMax));
  }
}
