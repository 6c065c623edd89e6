package tideline;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.CatalystTypeConverters$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.sources.StringContains;
import org.apache.spark.sql.sources.StringEndsWith;
import org.apache.spark.sql.sources.StringStartsWith;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * The filters of a query, as far as they are known here, as JSON for `planned_filters.py`; null
 * where none is.
 */
public class PlannedFilters implements Function {

  public Object apply(Object expressions) {
    Seq filters = (Seq) expressions;
    List found = new ArrayList();
    for (int i = 0; i < filters.length(); i++) {
      Expression filter = (Expression) filters.apply(i);
      if (filter.deterministic() && !SubqueryExpression.hasSubquery(filter)) {
        Option translated = DataSourceStrategy$.MODULE$.translateFilter(filter, false);
        Object one = translated.isEmpty() ? null : said((Filter) translated.get());
        if (one != null) {
          found.add(one);
        }
      }
    }
    try {
      return found.isEmpty() ? null : new ObjectMapper().writeValueAsString(found);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  /** A filter as maps and lists; null for what is not known. */
  private static Object said(Filter filter) {
    if (filter instanceof And) {
      return both("And", ((And) filter).left(), ((And) filter).right());
    }
    if (filter instanceof Or) {
      return both("Or", ((Or) filter).left(), ((Or) filter).right());
    }
    if (filter instanceof Not) {
      return both("Not", ((Not) filter).child(), null);
    }
    if (filter instanceof EqualTo) {
      return one(filter, ((EqualTo) filter).attribute(), ((EqualTo) filter).value());
    }
    if (filter instanceof EqualNullSafe) {
      EqualNullSafe equal = (EqualNullSafe) filter;
      return one(filter, equal.attribute(), equal.value());
    }
    if (filter instanceof GreaterThan) {
      return one(filter, ((GreaterThan) filter).attribute(), ((GreaterThan) filter).value());
    }
    if (filter instanceof GreaterThanOrEqual) {
      GreaterThanOrEqual greater = (GreaterThanOrEqual) filter;
      return one(filter, greater.attribute(), greater.value());
    }
    if (filter instanceof LessThan) {
      return one(filter, ((LessThan) filter).attribute(), ((LessThan) filter).value());
    }
    if (filter instanceof LessThanOrEqual) {
      LessThanOrEqual less = (LessThanOrEqual) filter;
      return one(filter, less.attribute(), less.value());
    }
    if (filter instanceof In) {
      List values = new ArrayList();
      Object[] given = ((In) filter).values();
      for (int i = 0; i < given.length; i++) {
        values.add(plain(given[i]));
      }
      return named(filter, ((In) filter).attribute(), values);
    }
    if (filter instanceof IsNull) {
      return named(filter, ((IsNull) filter).attribute(), null);
    }
    if (filter instanceof IsNotNull) {
      return named(filter, ((IsNotNull) filter).attribute(), null);
    }
    if (filter instanceof StringStartsWith) {
      StringStartsWith match = (StringStartsWith) filter;
      return one(filter, match.attribute(), match.value());
    }
    if (filter instanceof StringEndsWith) {
      return one(filter, ((StringEndsWith) filter).attribute(), ((StringEndsWith) filter).value());
    }
    if (filter instanceof StringContains) {
      return one(filter, ((StringContains) filter).attribute(), ((StringContains) filter).value());
    }
    return null;
  }

  private static Object both(String name, Filter left, Filter right) {
    List parts = new ArrayList();
    parts.add(said(left));
    if (right != null) {
      parts.add(said(right));
    }
    Map found = new HashMap();
    found.put("filter", name);
    found.put("parts", parts);
    return found;
  }

  private static Object one(Filter filter, String column, Object value) {
    return named(filter, column, plain(value));
  }

  private static Object named(Filter filter, String column, Object value) {
    Map found = new HashMap();
    found.put("filter", filter.getClass().getSimpleName());
    found.put("column", column);
    found.put("value", value);
    return found;
  }

  /** As Spark has it within: days of a date, microseconds of a time; all else as text. */
  private static Object plain(Object value) {
    Object within = CatalystTypeConverters$.MODULE$.convertToCatalyst(value);
    boolean isKnown = within == null || within instanceof Boolean || within instanceof Integer
        || within instanceof Long || within instanceof Short || within instanceof Byte;
    return isKnown ? within : within.toString();
  }
}
